// The values that the backward pass recomputes, by block of the model: bytes kept, bytes recomputed, and
// the cost. Pure; thread-safe. Times are the estimates of operations.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

struct Recomputation {
  std::string block = {};   // "encoder.layer.3"; the module for values outside of blocks
  int64_t kept_bytes = 0;   // saved for the backward pass, per micro-batch
  int64_t again_bytes = 0;  // recomputed values
  double flops = 0;         // FLOPs per step
  double ms = 0;
  std::map<std::string, int> ops = {};  // number of times that each op runs again per micro-batch
};

// Returns blocks in the order of the forward pass, without blocks that neither keep nor recompute values.
// Empty for a plan that does not train.
std::vector<Recomputation> recomputation(const Plan& plan);

}  // namespace plimsoll
