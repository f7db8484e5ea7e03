// What every kernel of attention on the GPU does around its products: finds its rows, clears tail rows, draws
// the numbers of dropout. Device code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/attention_launch.h"
#include "kernels/element_wise/cuda/philox.cuh"

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

// What dropout draws with in one call: attention_number() of attention.h, with what is the same for all
// blocks of a call computed once. `site_high` and `site_low` are the product of the first round that does not
// depend on the block; `addend` and `either` compare two 16-bit numbers with the threshold at a time.
struct Dropout {
  uint32_t key[2] = {0, 0};
  uint32_t step = 0;
  uint32_t site_high = 0, site_low = 0;  // of kPhiloxM1 * site
  uint32_t addend = 0, either = 0;
};

__device__ inline Dropout load_dropout(const AttentionKernelArgs& args) {
  Dropout dropout;
  if (args.dropout) {
    const auto seed = static_cast<uint64_t>(args.rng[0]);
    dropout.key[0] = static_cast<uint32_t>(seed);
    dropout.key[1] = static_cast<uint32_t>(seed >> 32);
    dropout.step = static_cast<uint32_t>(args.rng[1]);
    cuda::multiply_wide(kPhiloxM1, args.site, dropout.site_high, dropout.site_low);
    dropout.addend = (0x8000u - (args.threshold & 0x7fffu)) * 0x10001u;
    dropout.either = args.threshold < 0x8000u ? 0xffffffffu : 0;
  }
  return dropout;
}

// Bits 15 and 31 are set where the low and the high half of a word of numbers are at least the threshold; the
// other bits are anything. The sum carries into the top bit of a half where its lower 15 bits reach those of
// the threshold; beside a threshold below 2^15 either that or the number's own top bit is enough, beside one
// from there on it takes both.
__device__ inline uint32_t kept_halves(const Dropout& dropout, uint32_t numbers) {
  const uint32_t sum = (numbers & 0x7fff7fffu) + dropout.addend;
  return (sum & numbers) | ((sum | numbers) & dropout.either);
}

// The rounds of Philox in which blocks of the same keys agree whatever their row: after start_block(), only
// draw_block() is left to do for each row.
struct BlockStart {
  uint32_t word1 = 0, word3 = 0;  // words 1 and 3 of the counter after two rounds and one
  uint32_t high = 0, low = 0;     // of the third round's product of word 0
};
// `block` is the low half of attention_random_block().
__device__ inline BlockStart start_block(const Dropout& dropout, uint32_t block) {
  BlockStart start;
  uint32_t high, low;
  cuda::multiply_wide(kPhiloxM0, block, high, start.word3);
  const uint32_t word2 = high ^ dropout.step ^ dropout.key[1];
  cuda::multiply_wide(kPhiloxM1, word2, high, start.word1);
  const uint32_t word0 = high ^ dropout.site_low ^ (dropout.key[0] + kPhiloxW0);
  cuda::multiply_wide(kPhiloxM0, word0, start.high, low);
  start.low = low;
  return start;
}
// The four words of random_halves() for a block and attention_row().
__device__ inline void draw_block(const Dropout& dropout, const BlockStart& start, uint32_t row,
                                  uint32_t (&words)[4]) {
  uint32_t key0 = dropout.key[0] + 2 * kPhiloxW0, key1 = dropout.key[1] + 2 * kPhiloxW1;
  uint32_t high, low;
  // What the second round makes of the row, and the third round.
  cuda::multiply_wide(kPhiloxM0, dropout.site_high ^ row ^ dropout.key[0], high, low);
  const uint32_t word2 = high ^ start.word3 ^ (dropout.key[1] + kPhiloxW1);
  cuda::multiply_wide(kPhiloxM1, word2, high, words[1]);
  words[0] = high ^ start.word1 ^ key0;
  words[2] = start.high ^ low ^ key1;
  words[3] = start.low;
#pragma unroll
  for (int round = 3; round < kHalfRounds; ++round) {
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
    cuda::philox_round(words, key0, key1);
  }
}

// Keep bits are held in words of 32 keys, that of key 32 a + j at place 4 * (j % 8) + j / 8 of word a: a
// block of numbers gives a byte.
__host__ __device__ constexpr int keep_place(int j) {
  return 4 * (j % 8) + j / 8;
}
__device__ inline uint32_t keep_byte(const Dropout& dropout, const BlockStart& start, uint32_t row) {
  uint32_t words[4], bits = 0;
  draw_block(dropout, start, row, words);
#pragma unroll
  for (int n = 0; n < 4; ++n) bits = bits >> 1 | (kept_halves(dropout, words[n]) & 0x80008000u);
  return (bits >> 12 & 0xfu) | (bits >> 24 & 0xf0u);
}
__device__ inline uint32_t row_number(int t, int heads, int head) {
  return static_cast<uint32_t>(t) * static_cast<uint32_t>(heads) + static_cast<uint32_t>(head);
}

// A whole word, drawn by one thread.
__device__ inline uint32_t keep_word(const Dropout& dropout, int t, int heads, int head, int word) {
  uint32_t bits = 0;
#pragma unroll
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const BlockStart start = start_block(dropout, 4 * static_cast<uint32_t>(word) + quarter);
    bits |= keep_byte(dropout, start, row_number(t, heads, head)) << (8 * quarter);
  }
  return bits;
}

}  // namespace plimsoll::attention
