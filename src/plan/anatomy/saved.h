// The values that the forward pass keeps for the backward pass. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// Saved values that differ only in the number of their layer.
struct SavedKind {
  std::string values = {};    // "encoder.layer.*.attention.context"
  std::string producer = {};  // the op that computes them
  std::string type = {};      // "f32[T,1024]"
  int64_t count = 0;
  int64_t bytes = 0;
};

// Returns the saved values that are live at the peak of training, largest first. Their bytes add up to the
// saved bytes of that phase. Empty for a plan that does not train.
std::vector<SavedKind> saved_kinds(const Plan& plan);

}  // namespace plimsoll
