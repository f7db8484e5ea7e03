// The steps besides the arithmetic that every implementation of attention needs: checking the arguments, ordering the sequences by length
// (longest first) and writing zeros to tail rows (unused rows after the last sequence). Thread-safety: as in attention.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"

namespace plimsoll {

// The sequence that consists of rows first .. first + count - 1 of the batch.
struct AttentionSequence {
  int64_t first = 0;
  int64_t count = 0;
};

// Returns which keys the rows of a sequence see, given the mask and window of the call's arguments.
template <typename Args>
AttentionReach attention_reach(const Args& args, const AttentionSequence& sequence) {
  return {args.options.mask, args.dims.window, sequence.count};
}

inline AttentionSequence attention_sequence(const int32_t* cu_seqlens, int64_t b) {
  return {cu_seqlens[b], cu_seqlens[b + 1] - cu_seqlens[b]};
}

// Checks the arguments of a call against the contract in attention.h. Errors: kInternal if they break it. Cost: O(B).
void check_attention_args(const AttentionFwdArgs& args, int64_t scratch_bytes);
void check_attention_args(const AttentionBwdArgs& args, int64_t scratch_bytes);

// These functions check the arguments of a call, except for the lengths of the sequences. The *_cuda functions call them, because the host
// cannot read the lengths, which are in device memory.
void check_attention_device_args(const AttentionFwdArgs& args, int64_t scratch_bytes);
void check_attention_device_args(const AttentionBwdArgs& args, int64_t scratch_bytes);

// Checks that the *_cpu functions support the type. Errors: kInternal if not.
void check_cpu_type(DType dtype);

// The two arrays in the scratch memory of the *_cpu functions: the indices of the sequences, sorted by length (longest first; of equal
// lengths the lower index first), and the memory for the tiles of all threads.
struct AttentionCpuScratch {
  std::span<const int32_t> order;
  float* tiles;
};
// Sorts the sequences by length, writes their indices into `scratch`, and returns the two arrays into which `scratch` is divided. Requires:
// `scratch` has attention_order_bytes(dims) bytes plus those of the tiles.
AttentionCpuScratch lay_out_scratch(const AttentionDims& dims, const int32_t* cu_seqlens,
                                    const View& scratch);

// Returns how many consecutive heads of a sequence one task computes. While a task computes one head, it can prefetch the rows of the next
// one. The number is chosen such that each thread gets about four tasks, and it is a multiple of the number of query heads that share a
// head of k and v.
int64_t heads_of_task(const AttentionDims& dims, int threads);

// Prefetches head h of row t into the second-level cache. The hardware does not prefetch these rows, because other heads are stored between
// them. kWrite announces that the cache lines will be written.
enum class Fetch : uint8_t { kRead, kWrite };
template <Fetch kFetch>
[[gnu::always_inline]] inline void fetch_head(const ConstRows& rows, int64_t t, int64_t h, int64_t head_dim) {
  const int64_t element = dtype_bytes(rows.view.dtype);
  const char* row = static_cast<const char*>(rows.view.data) + (t * rows.row_stride + h * head_dim) * element;
  for (int64_t byte = 0; byte < head_dim * element; byte += 64) {
    __builtin_prefetch(row + byte, kFetch == Fetch::kWrite ? 1 : 0, 2);
  }
}

// Writes zeros to the first `columns` columns of rows first .. end - 1.
void clear_rows(const Rows& rows, int64_t columns, int64_t first, int64_t end);
// Writes zeros to row `first` and all later rows of d_q, d_k and d_v, which belong to no sequence.
void clear_gradient_tails(const AttentionBwdArgs& args, int64_t first);

}  // namespace plimsoll
