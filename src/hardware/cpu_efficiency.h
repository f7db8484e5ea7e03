// How much of a CPU's rate of products the other work of a training step reaches: what turns operations and
// bytes into an estimate of time where an op is no product. Pure data; thread-safe: constants.
//
// Where the shares come from: one thread of a Zen 4 with AVX-512 and BF16 (AMD EPYC, 2026-11-22), whose
// products of MiniLM-L6-H384 take 100 GFLOP/s in fp32 and 180 in bf16; the shortest time of each op over the
// layers and steps of `train --profile`, since others used the machine. GFLOP/s, by the ops' own counts:
//  1. Attention, 512 tokens in fp32: 54 forward, 79 backward; 128 tokens: 44 in fp32 and 52 in bf16. Without
//     AMX it multiplies in fp32 whatever its operands are rounded to.
//  2. GELU and its gradient: 20 to 26 in fp32, 15 to 17 in bf16, in blocks that caches hold; dropout,
//     residual and norm in one: 16 to 25.
//  3. AdamW with states in 8 bits: 9.4.
// With these, steps of MiniLM-L6-H384 (4 x 512, one thread) are predicted within 12 % of the processor time
// that they take (operations_test holds them to 15 %).
// Attention on AMX tiles: BERT-base 8 x 128 in bf16 on two cores of a Sapphire Rapids (2026-11-22, other work
// on the other cores), two runs of `train --profile`: 0.83 ns forward and 1.32 backward for each score, both
// cores together. MiniLM-L6-H384 4 x 512, whose heads are half as wide, on two cores of an H200's host
// (2026-11-23): 0.82 and 1.38. So a score takes as long with either width, its exponential and its place in
// tiles more than the products, and what is a share of FLOP/s for heads of 64 is less for narrower ones.
// Products of fp32 matrices on AMX tiles: BERT-base 8 x 128 on two such cores (2026-11-23, other work on the
// other cores), two runs of `train --profile`: 254 and 367 GFLOP/s where the table has 190 for AVX-512.
#pragma once

namespace plimsoll {

enum class CpuWork {
  kProduct,
  kProductOfParts,  // of fp32 matrices, on AMX tiles
  kAttention,
  kAttentionBackward,
  kAttentionOnTiles,  // of AMX, in bf16
  kAttentionBackwardOnTiles,
  kElements,      // element-wise ops and norms
  kUpdateOfCodes  // optimizer states in 8 bits
};

// Of the rate of products in the type that the work is done in; of attention on tiles, with heads of
// kCpuTilesHeadSize.
constexpr double cpu_share_of_flops(CpuWork work) {
  switch (work) {
    case CpuWork::kProduct:
      return 1;
    case CpuWork::kProductOfParts:
      return 1.6;
    case CpuWork::kAttention:
      return 0.55;
    case CpuWork::kAttentionBackward:
      return 0.80;
    case CpuWork::kAttentionOnTiles:
      return 0.21;
    case CpuWork::kAttentionBackwardOnTiles:
      return 0.33;
    case CpuWork::kElements:
      return 0.19;
    case CpuWork::kUpdateOfCodes:
      return 0.095;
  }
  return 1;
}

inline constexpr double kCpuTilesHeadSize = 64;

}  // namespace plimsoll
