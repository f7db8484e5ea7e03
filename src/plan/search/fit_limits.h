// Finds the largest batch and the longest sequence that fit with a set of methods, by planning. Not
// thread-safe, because a planner is not.
#pragma once

#include <cstdint>

#include "plan/search/fit_planner.h"

namespace plimsoll {

struct FitLimits {
  int64_t largest_batch = 0;     // sequences of a batch without accumulation; 0: none fits
  int64_t longest_sequence = 0;  // tokens per sequence in batches of the shape
};

// Searches up to `most_sequences` and `most_tokens`, from a shape that fits. If each plan chooses what it
// recomputes, both limits are those of the policy that bounds it, which needs at least as much. Cost: about
// twenty placements and two plans.
FitLimits find_limits(FitPlanner& planner, const FitShape& shape, int64_t most_sequences,
                      int64_t most_tokens);

}  // namespace plimsoll
