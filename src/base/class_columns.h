// The columns of a matrix with one row per token, from which the loss over classes is computed if the ranks of a tensor-parallel group
// divide the classes among them. Each rank fills the columns of its own classes and writes zeros to the columns of the other ranks; the sum
// of the matrices over the ranks therefore contains the columns of all ranks (kernels/loss/class_sums.h). Thread-safe: values only.
#pragma once

#include <cstdint>

namespace plimsoll {

struct ClassColumns {
  int64_t ranks = 0;     // 0: the classes are not divided among ranks
  bool smooths = false;  // the loss has label smoothing
  bool counts = false;   // correct predictions are counted

  // Return the column that contains: the logarithm of the sum of exponentials of one rank's logits; the logit of the label; the sum of all
  // logits (Requires: smooths); the largest logit of one rank; 1 if the label is the first of the largest logits of its rank, otherwise 0
  // (both require: counts).
  constexpr int64_t log_sum(int64_t rank) const { return rank; }
  constexpr int64_t label_logit() const { return ranks; }
  constexpr int64_t logit_sum() const { return ranks + 1; }
  constexpr int64_t largest(int64_t rank) const { return ranks + (smooths ? 2 : 1) + rank; }
  constexpr int64_t label_is_largest() const { return largest(ranks); }
  constexpr int64_t size() const { return counts ? largest(ranks) + 1 : largest(0); }

  friend bool operator==(const ClassColumns&, const ClassColumns&) = default;
};

}  // namespace plimsoll
