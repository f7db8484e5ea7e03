// How long the ops' stream of a GPU waits for copies between memory spaces, as an estimate. A pure function;
// thread-safe.
#pragma once

#include <vector>

#include "plan/build/plan.h"

namespace plimsoll {

// Follows the ops' stream and the two of copies, and gives every copy the time that the ops' stream waits for
// it. `op_ms`: how long each op of the program takes; what it says of copies is not read. Requires: the plan
// of the ops says where copies end.
void add_copy_waits(const ProgramPlan& program, const PlanRequest& request, std::vector<double>& op_ms);

}  // namespace plimsoll
