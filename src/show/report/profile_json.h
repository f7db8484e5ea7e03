// profile.json: the time of every op of a step, for programs. Pure; thread-safe.
//
// {"num_steps", "step_ms", "ops": [{"op", "computes", "module", "segment", "group", "kernel", "ms", "runs",
// "flops", "bytes"}]}, with ops in the order of the schedule; "ms", "flops" and "bytes" are sums over all
// runs in a step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "show/report/profile_table.h"

namespace plimsoll {

// Formats the data of profile_table() with an indent of two spaces and a newline at the end.
std::string profile_json(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                         const ProfileContext& context);

}  // namespace plimsoll
