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

// The same but for the lengths of the sequences, which lie where the host cannot read them.
void check_attention_device_args(const AttentionFwdArgs& args, int64_t scratch_bytes);
void check_attention_device_args(const AttentionBwdArgs& args, int64_t scratch_bytes);

// Errors: kInternal for a type that *_cpu does not take.
void check_cpu_type(DType dtype);

// Scratch of *_cpu: 0 .. B-1, longest sequence first and equal lengths by number, then the threads' tiles.
struct AttentionCpuScratch {
  std::span<const int32_t> order;
  float* tiles;
};
// Fills the order. Requires: attention_order_bytes(dims) bytes and those of the tiles.
AttentionCpuScratch lay_out_scratch(const AttentionDims& dims, const int32_t* cu_seqlens,
                                    const View& scratch);

// Consecutive heads of a sequence that one task takes, so that the rows of the next head can be fetched into
// the cache while one is computed: as many as leave four tasks a thread, at least one.
int64_t heads_of_task(const AttentionDims& dims, int threads);

// Asks for head h of row t to be brought into the second-level cache: rows of other heads lie between, which
// keeps the hardware from seeing a stream. kWrite asks for lines that will be written.
enum class Fetch : uint8_t { kRead, kWrite };
template <Fetch kFetch>
[[gnu::always_inline]] inline void fetch_head(const ConstRows& rows, int64_t t, int64_t h, int64_t head_dim) {
  const int64_t element = dtype_bytes(rows.view.dtype);
  const char* row = static_cast<const char*>(rows.view.data) + (t * rows.row_stride + h * head_dim) * element;
  for (int64_t byte = 0; byte < head_dim * element; byte += 64) {
    __builtin_prefetch(row + byte, kFetch == Fetch::kWrite ? 1 : 0, 2);
  }
}

// Writes zeros to elements [first row * stride, ...) of the H * D columns of rows [first, end).
void clear_rows(const Rows& rows, int64_t columns, int64_t first, int64_t end);

}  // namespace plimsoll
