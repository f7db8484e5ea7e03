// Formats the measured time of a step as a table: per group of ops and phase (forward, backward, optimizer), and for the slowest ops. Pure;
// thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/anatomy/operations.h"

namespace plimsoll {

struct ProfileContext {
  int64_t num_steps = 0;  // number of measured steps; 0 if unknown
  // Number of steps in which a program ran for the first time with a batch size, which is slower. The measured
  // times exclude these steps if other steps were measured.
  int64_t num_first_steps = 0;
  double step_ms = 0;  // wall time of a step; 0 if unknown
  // Measured peak rate of the device, with which the reached rates are compared; 0 if unknown.
  double peak_gflops = 0;
  double peak_gb_per_s = 0;
};

// Formats a table of op groups with forward, backward and optimizer times, GFLOP/s and GB/s, followed by the
// ten slowest ops. `ms_per_step[i]` is the mean time of ops[i] per step, summed over all its executions in
// that step. `ops` comes from estimate_ops() of the program that ran. Requires: one time per op.
std::string profile_table(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                          const ProfileContext& context);

// The function below formats profile.json: the time of every op of a step, for other programs. Pure; thread-safe.
//
// {"num_steps", "step_ms", "ops": [{"op", "computes", "module", "segment", "group", "kernel", "ms", "runs",
// "flops", "bytes"}]}, with ops in the order of the schedule; "ms", "flops" and "bytes" are sums over all
// runs in a step.

// Formats the data of profile_table() as JSON with an indent of two spaces and a newline at the end.
std::string profile_json(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                         const ProfileContext& context);

}  // namespace plimsoll
