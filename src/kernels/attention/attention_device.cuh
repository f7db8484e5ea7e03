// The steps that the GPU kernels of attention have in common besides matrix products: finding the rows of a thread block, writing zeros to
// tail rows (unused rows after the last sequence), and drawing the random numbers of dropout. Device code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/attention_launch.h"
#include "kernels/element_wise/cuda/philox.cuh"

namespace plimsoll::attention {

// The rows that a thread block computes. They belong to the sequence that consists of rows first .. first + count - 1 of the batch, and
// begin at row number `row` of this sequence.
struct Work {
  int first = 0;
  int count = 0;
  int row = 0;
  int head = 0;
  bool is_tail = false;  // true if this block only writes zeros to rows after the last sequence
};

enum class TileOrder { kForward, kBackward };

// Returns the number of the tile of rows that this block computes. The grid is numbered (tile, head, sequence) or, under a causal mask,
// (head, tile, sequence). Under a causal mask some tiles have more work than others; the second order starts the tiles with most work
// first, for all heads of a sequence. Otherwise some of these tiles would still run when all other blocks have ended.
__device__ inline int tile_of_block(const AttentionKernelArgs& args) {
  return static_cast<int>(args.causal ? blockIdx.y : blockIdx.x);
}
__device__ inline int num_tiles(const AttentionKernelArgs& args) {
  return static_cast<int>(args.causal ? gridDim.y : gridDim.x);
}

// Returns the rows that this block computes. The grid has one sequence index more than there are sequences: blocks with the last index
// write zeros to the rows after the last sequence. With kBackward the first blocks compute the last rows of a sequence, because under a
// causal mask these rows see the most keys.
__device__ inline Work find_work(const AttentionKernelArgs& args, int rows, TileOrder order) {
  Work work;
  work.head = static_cast<int>(args.causal ? blockIdx.x : blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int tile =
      order == TileOrder::kForward ? tile_of_block(args) : num_tiles(args) - 1 - tile_of_block(args);
  work.row = tile * rows;
  work.first = args.cu_seqlens[sequence];
  work.is_tail = sequence == args.sequences;
  if (!work.is_tail) work.count = args.cu_seqlens[sequence + 1] - work.first;
  return work;
}

// Returns a copy of `work` with the head of k and v that the head of q in `work` reads.
__device__ inline Work work_of_keys(const AttentionKernelArgs& args, const Work& work) {
  Work keys = work;
  keys.head = work.head / args.group;
  return keys;
}

// Return the range of keys first_key .. end_key - 1 that a query row sees, and the range of queries first_query .. end_query - 1 that see a
// key row. AttentionReach of attention.h defines both ranges. Rows past the end of the sequence are allowed.
__device__ inline int first_key(const AttentionKernelArgs& args, int row) {
  return args.window > 0 ? max(0, row - args.window + 1) : 0;
}
__device__ inline int end_key(const AttentionKernelArgs& args, const Work& work, int row) {
  if (args.causal) return min(work.count, row + 1);
  return args.window > 0 ? min(work.count, row + args.window) : work.count;
}
__device__ inline int first_query(const AttentionKernelArgs& args, int key) {
  return args.causal ? key : first_key(args, key);
}
__device__ inline int end_query(const AttentionKernelArgs& args, const Work& work, int key) {
  return args.window > 0 ? min(work.count, key + args.window) : work.count;
}

// The initial value of the running maximum of a row's scores. It is not minus infinity, because a window can hide all keys of a tile from a
// row, and the difference between two maxima of minus infinity would be NaN. With this value the sums of such a row stay zero.
inline constexpr float kNoScore = -1e30f;

// Writes zeros to the tail rows (unused rows after the last sequence) of one head. These rows are distributed over all thread blocks that
// call this function for the head.
__device__ inline void clear_tail(const AttentionKernelArgs& args, const Work& work, void* rows,
                                  int64_t stride) {
  const int words = args.head_dim * (args.dtype == DType::kF32 ? 2 : 1);
  const int64_t scale = args.dtype == DType::kF32 ? 2 : 1;
  auto* halves = static_cast<uint16_t*>(rows);
  for (int t = work.first + tile_of_block(args); t < args.tokens; t += num_tiles(args)) {
    uint16_t* row = halves + (t * stride + static_cast<int64_t>(work.head) * args.head_dim) * scale;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) row[i] = 0;
  }
}
__device__ inline void clear_tail_of_row_values(const AttentionKernelArgs& args, const Work& work,
                                                float* values) {
  const int threads = static_cast<int>(blockDim.x), step = num_tiles(args) * threads;
  for (int t = work.first + tile_of_block(args) * threads + static_cast<int>(threadIdx.x); t < args.tokens;
       t += step) {
    values[static_cast<int64_t>(work.head) * args.tokens + t] = 0.0f;
  }
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Start an asynchronous copy of 16 or 4 bytes to shared memory. If `is_valid` is false, they write zeros instead. Compute capability 8.0
// and later.
__device__ inline void copy_16(uint32_t to, const void* from, bool is_valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_valid ? 16 : 0)
               : "memory");
}
__device__ inline void copy_4(uint32_t to, const void* from, bool is_valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(is_valid ? 4 : 0)
               : "memory");
}
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// The values from which dropout computes attention_number() of attention.h, the same for all rows and keys of a call. `site_high` and
// `site_low` are a product of the first Philox round that depends only on the site (a number that identifies the op). `addend` and `either`
// are constants with which kept_halves() compares two 16-bit numbers with the dropout threshold at once.
struct Dropout {
  uint32_t key[2] = {0, 0};
  uint32_t step = 0;
  uint32_t site_high = 0, site_low = 0;  // upper and lower half of kPhiloxM1 * site
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

// Compares two packed 16-bit numbers with the dropout threshold. Bit 15 of the result is set if the lower half of `numbers` is at least the
// threshold, bit 31 if the upper half is; the other bits are arbitrary. The addition carries into the top bit of a half if its lower 15
// bits are at least those of the threshold. If the threshold is below 2^15, either this carry or the top bit of the number suffices,
// otherwise both are necessary.
__device__ inline uint32_t kept_halves(const Dropout& dropout, uint32_t numbers) {
  const uint32_t sum = (numbers & 0x7fff7fffu) + dropout.addend;
  return (sum & numbers) | ((sum | numbers) & dropout.either);
}

// Results of the first Philox rounds that do not depend on the query row. start_block() computes them once per block of random numbers.
// draw_block() computes the remaining rounds for each row.
struct BlockStart {
  uint32_t word1 = 0, word3 = 0;  // word 1 of the counter after two rounds, and word 3 after one round
  uint32_t high = 0, low = 0;     // the two halves of the product of word 0 in the third round
};
// Starts the Philox rounds of a block. Requires: `block` is the low half of attention_random_block().
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
// Completes the Philox rounds for a row and returns the four words of random_halves(). `row` is the low half of attention_row().
__device__ inline void draw_block(const Dropout& dropout, const BlockStart& start, uint32_t row,
                                  uint32_t (&words)[4]) {
  uint32_t key0 = dropout.key[0] + 2 * kPhiloxW0, key1 = dropout.key[1] + 2 * kPhiloxW1;
  uint32_t high, low;
  // This product is the only part of the second round that depends on the row. The second and the third round are completed here.
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

// Returns the position of the dropout bit of key 32 a + j in the 32-bit word number a: 4 * (j % 8) + j / 8. In this order, one block of
// random numbers yields one byte of the word.
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
// Returns the low half of attention_row() of query row t. `head` counts the heads of this rank; attention_row() counts those of all ranks.
__device__ inline uint32_t keep_row(const AttentionKernelArgs& args, int t, int head) {
  return static_cast<uint32_t>(t) * static_cast<uint32_t>(args.all_heads) +
         static_cast<uint32_t>(args.first_head + head);
}

// Draws the dropout bits of a query row and 32 keys in one thread.
__device__ inline uint32_t keep_word(const Dropout& dropout, uint32_t row, int word) {
  uint32_t bits = 0;
#pragma unroll
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const BlockStart start = start_block(dropout, 4 * static_cast<uint32_t>(word) + quarter);
    bits |= keep_byte(dropout, start, row) << (8 * quarter);
  }
  return bits;
}

}  // namespace plimsoll::attention
