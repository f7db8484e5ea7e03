// What a GPU holds of a plan's programs as CUDA graphs: segments that were captured to be replayed. Pure.
#pragma once

#include "plan/compile/plan.h"

namespace plimsoll {

// How many CUDA graphs of each program are held at one time, at most, and their bytes; context_bytes is 0.
// Exact where the limit kMaxCapturedSegments lets all that are ever captured be held together, else an upper
// bound. Requires: a plan whose programs have their ladders. Cost: a look at every op.
GpuConstant captured_graphs(const Plan& plan);

}  // namespace plimsoll
