// The columns of a matrix that has one row per token. The loss is computed from this matrix if the ranks of a tensor-parallel group divide
// the classes among them. Each rank fills the columns for its own classes and writes zeros to those of the other ranks. The sum of the
// matrices over the ranks therefore contains the columns of all ranks (kernels/loss/class_sums.h). Thread-safe: values only.
#pragma once

#include <cstdint>

namespace plimsoll {

struct ClassColumns {
  int64_t ranks = 0;     // number of ranks among which the classes are divided; 0 if they are not divided
  bool smooths = false;  // true if the loss uses label smoothing
  bool counts = false;   // true if correct predictions are counted, for the accuracy

  // Each function returns the index of one column. Contents of the columns: log_sum(rank) is the logarithm of the sum of the exponentials
  // of this rank's logits; label_logit() the logit of the label; logit_sum() the sum of all logits (requires `smooths`); largest(rank) the
  // largest logit of this rank (requires `counts`); label_is_largest() 1 if the label is the first of the largest logits of its rank,
  // otherwise 0 (requires `counts`). size() is the number of columns.
  constexpr int64_t log_sum(int64_t rank) const { return rank; }
  constexpr int64_t label_logit() const { return ranks; }
  constexpr int64_t logit_sum() const { return ranks + 1; }
  constexpr int64_t largest(int64_t rank) const { return ranks + (smooths ? 2 : 1) + rank; }
  constexpr int64_t label_is_largest() const { return largest(ranks); }
  constexpr int64_t size() const { return counts ? largest(ranks) + 1 : largest(0); }

  friend bool operator==(const ClassColumns&, const ClassColumns&) = default;
};

}  // namespace plimsoll
