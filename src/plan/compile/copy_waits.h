// Estimates how long a GPU's stream of ops waits for copies between memory spaces. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// A copy between memory spaces. It starts at the position `op`, and has ended before the op at `end` starts.
struct TimedCopy {
  uint32_t op = 0;
  uint32_t end = 0;
  Space to = Space::kHost;
  double bytes = 0;  // bytes that the copy moves in its direction
};

// Returns the copies of a graph in the order of their positions.
std::vector<TimedCopy> timed_copies(const Graph& graph, const Bucket& bucket);

// Simulates the stream of ops and the two streams of copies. `op_ms` contains the time of every op of the
// program; the function replaces the time of each copy by the time for which the stream of ops waits for
// it. Requires: program.ops states where each copy ends.
void add_copy_waits(const ProgramPlan& program, const PlanRequest& request, std::vector<double>& op_ms);
// Does the same for a program with these copies. Requires: they are in the order of their positions.
void add_copy_waits(std::span<const TimedCopy> copies, const PlanRequest& request,
                    std::vector<double>& op_ms);

}  // namespace plimsoll
