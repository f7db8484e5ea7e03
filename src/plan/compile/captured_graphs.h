// Counts the CUDA graphs of a plan's programs: segments that are captured once and then replayed. Pure.
#pragma once

#include "plan/compile/plan.h"

namespace plimsoll {

// Returns the largest number of CUDA graphs of each program that a GPU holds at one time, and their bytes;
// context_bytes is 0. The result is exact if the limit kMaxCapturedSegments allows all graphs of the run
// together, and an upper bound otherwise. Requires: the plan's programs have their ladders. Cost: one look
// at every op.
GpuConstant captured_graphs(const Plan& plan);

}  // namespace plimsoll
