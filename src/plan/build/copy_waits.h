// How long the ops' stream of a GPU waits for copies between memory spaces, as an estimate. A pure function;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/build/plan.h"

namespace plimsoll {

// A copy at its position: before the op at `end` it has ended.
struct TimedCopy {
  uint32_t op = 0;
  uint32_t end = 0;
  Space to = Space::kHost;
  double bytes = 0;  // in one direction
};

// The copies of a graph, in the order of their positions.
std::vector<TimedCopy> timed_copies(const Graph& graph, const Bucket& bucket);

// Follows the ops' stream and the two of copies, and gives every copy the time that the ops' stream waits for
// it. `op_ms`: how long each op of the program takes; what it says of copies is not read. Requires: the plan
// of the ops says where copies end.
void add_copy_waits(const ProgramPlan& program, const PlanRequest& request, std::vector<double>& op_ms);
// The same of a program whose copies are these. Requires: in the order of their positions.
void add_copy_waits(std::span<const TimedCopy> copies, const PlanRequest& request,
                    std::vector<double>& op_ms);

}  // namespace plimsoll
