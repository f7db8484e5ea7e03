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

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies on their way to shared memory while the block computes: 16 or 4 bytes, zeros where `is_there` is
// false. Compute capability 8.0 and later.
__device__ inline void copy_16(uint32_t to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
}
__device__ inline void copy_4(uint32_t to, const void* from, bool is_there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(is_there ? 4 : 0)
               : "memory");
}
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// The numbers of dropout for one call: what philox_block() of base/philox.h gives, with what is the same for
// all blocks of a call computed once. The second product of the first round, of (site, step), is one of
// these.
struct Dropout {
  uint32_t threshold = 0;
  uint32_t key[2] = {0, 0};
  uint32_t step = 0;
  uint32_t site_high = 0, site_low = 0;  // of kPhiloxM1 * site
};

__device__ inline void multiply_wide(uint32_t a, uint32_t b, uint32_t& high, uint32_t& low) {
  asm("{\n.reg .u64 p;\nmul.wide.u32 p, %2, %3;\nmov.b64 {%0, %1}, p;\n}"
      : "=r"(low), "=r"(high)
      : "r"(a), "r"(b));
}

__device__ inline Dropout load_dropout(const AttentionKernelArgs& args) {
  Dropout dropout;
  if (args.dropout) {
    const auto seed = static_cast<uint64_t>(args.rng[0]);
    dropout.threshold = args.threshold;
    dropout.key[0] = static_cast<uint32_t>(seed);
    dropout.key[1] = static_cast<uint32_t>(seed >> 32);
    dropout.step = static_cast<uint32_t>(args.rng[1]);
    multiply_wide(kPhiloxM1, args.site, dropout.site_high, dropout.site_low);
  }
  return dropout;
}

// Bit 4 * q + e is set when query row t keeps key 4 * (quad + q) + e, for q < kQuads; attention_element()
// divided by four numbers the blocks. Requires: quad a multiple of kQuads, a power of two.
template <int kQuads>
__device__ inline uint32_t keep_of_quads(const Dropout& dropout, int t, int heads, int head, int quad) {
  const uint64_t row = static_cast<uint64_t>(t) * static_cast<uint32_t>(heads) + static_cast<uint32_t>(head);
  const uint32_t low = (static_cast<uint32_t>(row) << 18) + static_cast<uint32_t>(quad);
  const uint32_t high = static_cast<uint32_t>(row >> 14);
  uint32_t c0[kQuads], c1[kQuads], c2[kQuads], c3[kQuads];
  uint32_t key0 = dropout.key[0], key1 = dropout.key[1];
  // The first round, where only the low word of the counter differs between the blocks.
#pragma unroll
  for (uint32_t q = 0; q < kQuads; ++q) {
    uint32_t product_high;
    multiply_wide(kPhiloxM0, low + q, product_high, c3[q]);
    c0[q] = dropout.site_high ^ high ^ key0;
    c1[q] = dropout.site_low;
    c2[q] = product_high ^ dropout.step ^ key1;
  }
#pragma unroll
  for (int round = 1; round < 10; ++round) {
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      uint32_t high0, low0, high1, low1;
      multiply_wide(kPhiloxM0, c0[q], high0, low0);
      multiply_wide(kPhiloxM1, c2[q], high1, low1);
      c0[q] = high1 ^ c1[q] ^ key0;
      c2[q] = high0 ^ c3[q] ^ key1;
      c1[q] = low1;
      c3[q] = low0;
    }
  }
  uint32_t bits = 0;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const uint32_t numbers[4] = {c0[q], c1[q], c2[q], c3[q]};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (numbers[e] >= dropout.threshold) bits |= 1u << (4 * q + e);
    }
  }
  return bits;
}

__device__ inline uint32_t keep_of_four(const Dropout& dropout, int t, int heads, int head, int quad) {
  return keep_of_quads<1>(dropout, t, heads, head, quad);
}

}  // namespace plimsoll::attention
