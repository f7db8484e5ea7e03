// What the backward pass computes again, by block of the model: bytes kept beside bytes made again, and what
// that costs. Pure; thread-safe. Times are the estimates of operations.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

struct Recomputation {
  std::string block = {};   // "encoder.layer.3"; the module for what is in no block
  int64_t kept_bytes = 0;   // saved for the backward pass, of one micro-batch
  int64_t again_bytes = 0;  // values made again
  double flops = 0;         // of a step
  double ms = 0;
  std::map<std::string, int> ops = {};  // how often each op runs again in a micro-batch
};

// In the order of the forward pass; blocks that neither keep nor compute again are left out. Empty for a plan
// that does not train.
std::vector<Recomputation> recomputation(const Plan& plan);

}  // namespace plimsoll
