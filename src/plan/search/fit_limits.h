// How large a batch and how long a sequence fit with a set of methods, found by planning. Not thread-safe: a
// planner is not.
#pragma once

#include <cstdint>

#include "plan/search/fit_planner.h"

namespace plimsoll {

struct FitLimits {
  int64_t largest_batch = 0;     // sequences of a batch that is not accumulated; 0: none fits
  int64_t longest_sequence = 0;  // tokens of a sequence in batches of the shape
};

// Up to `most_sequences` and `most_tokens`, of a shape that fits. Where each plan chooses what it computes
// again, both are those of the policy that bounds it, which needs no less. Cost: some twenty placings, and
// two plans.
FitLimits find_limits(FitPlanner& planner, const FitShape& shape, int64_t most_sequences,
                      int64_t most_tokens);

}  // namespace plimsoll
