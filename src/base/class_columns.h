// The numbers per row from which the loss over classes follows that the ranks of a tensor-parallel group divide. Each rank
// computes those of its own classes, and zeros in the places of the others; the sum over the ranks has all of them (kernels/loss/
// class_sums.h). Thread-safe: values only.
#pragma once

#include <cstdint>

namespace plimsoll {

struct ClassColumns {
  int64_t ranks = 0;     // 0: no rank divides the classes
  bool smooths = false;  // the loss has label smoothing
  bool counts = false;   // correct predictions are counted

  // Return the column of a row that contains: the logarithm of the sum of exponentials of a rank's logits; the logit of the label;
  // the sum of all logits (Requires: smooths); the largest logit of a rank, and 1 if the label has the first of the largest logits of
  // its rank (Requires: counts).
  constexpr int64_t log_sum(int64_t rank) const { return rank; }
  constexpr int64_t label_logit() const { return ranks; }
  constexpr int64_t logit_sum() const { return ranks + 1; }
  constexpr int64_t largest(int64_t rank) const { return ranks + (smooths ? 2 : 1) + rank; }
  constexpr int64_t label_is_largest() const { return largest(ranks); }
  constexpr int64_t size() const { return counts ? largest(ranks) + 1 : largest(0); }

  friend bool operator==(const ClassColumns&, const ClassColumns&) = default;
};

}  // namespace plimsoll
