// profile.json: what every op of a step took, for programs. Pure; thread-safe.
//
// {"num_steps", "step_ms", "ops": [{"op", "computes", "module", "segment", "group", "kernel", "ms", "runs",
// "flops", "bytes"}]}, ops in the order of the schedule; "ms", "flops" and "bytes" are of all runs in a step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "show/report/profile_table.h"

namespace plimsoll {

// The operands of profile_table(). Two spaces of indent, a newline at the end.
std::string profile_json(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                         const ProfileContext& context);

}  // namespace plimsoll
