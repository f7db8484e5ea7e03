// A split that is ready for batches: tokens and labels. Thread-safe after construction.
#pragma once

#include <cstdint>
#include <span>

#include "io/data/labels.h"
#include "io/data/token_set.h"

namespace plimsoll {

struct Dataset {
  TokenSet tokens;
  Labels labels;  // empty for a split without labels

  int64_t num_rows() const { return tokens.num_rows(); }
  // Returns the number of labels that the mean of a loss over these rows is taken over: one per row.
  int64_t num_labels(std::span<const int32_t> rows) const { return std::ssize(rows); }
  // Returns the number of bytes in memory, as the memory plan reports it.
  int64_t held_bytes() const;
};

}  // namespace plimsoll
