// What every kernel of attention on the GPU does around its products: finds its rows, clears tail rows, draws
// the numbers of dropout. Device code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/philox.h"
#include "kernels/attention/attention_launch.h"

namespace plimsoll::attention {

// The rows that a block computes: rows first .. first + count - 1 of the batch are its sequence's, and its
// own begin with number `row` of these.
struct Work {
  int first = 0;
  int count = 0;
  int row = 0;
  int head = 0;
  bool is_tail = false;  // clears tail rows instead
};

enum class TileOrder { kForward, kBackward };

// Blocks are numbered (tile, head, sequence); one more sequence than there are stands for the tail.
// kBackward takes the last rows first: where the mask is causal these see the most keys.
__device__ inline Work find_work(const AttentionKernelArgs& args, int rows, TileOrder order) {
  Work work;
  work.head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int tile = static_cast<int>(order == TileOrder::kForward ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
  work.row = tile * rows;
  work.first = args.cu_seqlens[sequence];
  work.is_tail = sequence == args.sequences;
  if (!work.is_tail) work.count = args.cu_seqlens[sequence + 1] - work.first;
  return work;
}

// Writes zeros to the tail rows of one head, shared among the blocks of the tail.
__device__ inline void clear_tail(const AttentionKernelArgs& args, const Work& work, void* rows,
                                  int64_t stride) {
  const int words = args.head_dim * (args.dtype == DType::kF32 ? 2 : 1);
  const int64_t scale = args.dtype == DType::kF32 ? 2 : 1;
  auto* halves = static_cast<uint16_t*>(rows);
  for (int t = work.first + static_cast<int>(blockIdx.x); t < args.tokens; t += static_cast<int>(gridDim.x)) {
    uint16_t* row = halves + (t * stride + static_cast<int64_t>(work.head) * args.head_dim) * scale;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) row[i] = 0;
  }
}
__device__ inline void clear_tail_of_row_values(const AttentionKernelArgs& args, const Work& work,
                                                float* values) {
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (int t = work.first + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); t < args.tokens;
       t += step) {
    values[static_cast<int64_t>(work.head) * args.tokens + t] = 0.0f;
  }
}

// The numbers of dropout for one call.
struct Dropout {
  RandomSite where;
  uint32_t threshold = 0;
};

__device__ inline Dropout load_dropout(const AttentionKernelArgs& args) {
  Dropout dropout;
  if (args.dropout) {
    dropout.where = {static_cast<uint64_t>(args.rng[0]), static_cast<uint32_t>(args.rng[1]), args.site};
    dropout.threshold = args.threshold;
  }
  return dropout;
}

// Bit e is set when query row t keeps key 4 * quad + e; attention_element() divided by four numbers the
// blocks.
__device__ inline uint32_t keep_of_four(const Dropout& dropout, int t, int heads, int head, int quad) {
  const uint64_t row = static_cast<uint64_t>(t) * static_cast<uint32_t>(heads) + static_cast<uint32_t>(head);
  const std::array<uint32_t, 4> numbers =
      philox_block(dropout.where, (row << 18) + static_cast<uint32_t>(quad));
  uint32_t bits = 0;
#pragma unroll
  for (uint32_t e = 0; e < 4; ++e) bits |= (numbers[e] >= dropout.threshold ? 1u : 0u) << e;
  return bits;
}

}  // namespace plimsoll::attention
