// Where the time of a step goes, as measured: groups, segments, the slowest ops. Pure; thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/anatomy/operations.h"

namespace plimsoll {

struct ProfileContext {
  int64_t num_steps = 0;  // that were measured; 0: not said
  // Those in which a bucket ran for the first time: left out, unless there are no others.
  int64_t num_first_steps = 0;
  double step_ms = 0;      // wall time of a step; 0: not known
  double peak_gflops = 0;  // of the device, as measured, for the share of it; 0: not known
  double peak_gb_per_s = 0;
};

// `ms_per_step[i]` is the mean time that ops[i] took in a step, over all its runs in that step; ops come from
// estimate_ops() of the program that ran. A table of the groups, forward beside backward and optimizer, with
// GFLOP/s and GB/s, then the ten slowest ops. Requires: as many times as ops.
std::string profile_table(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                          const ProfileContext& context);

}  // namespace plimsoll
