// What every implementation of attention does around its arithmetic: verifies the arguments, puts the longest
// sequences first, clears tail rows. Thread-safety: as attention.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"

namespace plimsoll {

// The rows first .. first + count - 1 of the batch.
struct AttentionSequence {
  int64_t first = 0;
  int64_t count = 0;
};

inline AttentionSequence attention_sequence(const int32_t* cu_seqlens, int64_t b) {
  return {cu_seqlens[b], cu_seqlens[b + 1] - cu_seqlens[b]};
}

// Errors: kInternal if the arguments break the contract; cost O(B).
void check_attention_args(const AttentionFwdArgs& args, int64_t scratch_bytes);
void check_attention_args(const AttentionBwdArgs& args, int64_t scratch_bytes);

// Fills `order` with 0 .. B-1, longest sequence first, equal lengths by number. Requires: order.size() == B.
void order_longest_first(const int32_t* cu_seqlens, std::span<int32_t> order);

// Writes zeros to elements [first row * stride, ...) of the H * D columns of rows [first, end).
void clear_rows(const Rows& rows, int64_t columns, int64_t first, int64_t end);

}  // namespace plimsoll
