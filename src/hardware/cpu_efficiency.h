// The rate of ops in a training step on a CPU, as a fraction of the CPU's rate for matrix products. It converts operations and
// bytes into time estimates for ops that are not matrix products. Pure data; thread-safe: constants.
//
// The fractions were measured on one thread of a Zen 4 with AVX-512 and BF16 (AMD EPYC, 2026-11-22), whose matrix products for
// MiniLM-L6-H384 reach 100 GFLOP/s in fp32 and 180 in bf16. Because other users shared the machine, each time is the shortest one
// of an op over all layers and steps of `train --profile`. The rates in GFLOP/s, for the operation counts that the ops report,
// are:
//
//  1. Attention with 512 tokens in fp32: 54 forward, 79 backward; with 128 tokens: 44 in fp32 and 52 in bf16. Without AMX, attention
//     multiplies in fp32 even if its operands are bf16.
//  2. GELU and its gradient, in blocks that fit into caches: 20 to 26 in fp32, 15 to 17 in bf16. Fused dropout,
//     residual and norm: 16 to 25.
//  3. AdamW with 8-bit states: 9.4.
//
// With these rates, the estimated time of steps of MiniLM-L6-H384 (batches of 4 x 512 tokens, one thread) differs by at most 12 %
// from their processor time (operations_test requires 15 %).
//
// Attention on AMX tiles: for BERT-base with batches of 8 x 128 tokens in bf16, on two cores of a Sapphire Rapids (2026-11-22,
// other programs on the other cores), two runs of `train --profile` gave 0.83 ns forward and 1.32 ns backward per attention
// score, for both cores together. For MiniLM-L6-H384 with 4 x 512 tokens, whose heads are half as wide, on two cores of an H200's
// host (2026-11-23) it was 0.82 and 1.38 ns. The time of a score thus does not depend on the width of the heads, because its
// exponential and its handling in tiles take longer than the products. cpu_share_of_flops() contains the
// fraction of FLOP/s for heads of width 64. For narrower heads it is smaller, because a score then has fewer operations.
//
// Matrix products of fp32 operands on AMX tiles: for BERT-base with 8 x 128 tokens on two such cores (2026-11-23, other programs
// on the other cores), two runs of `train --profile` gave 254 and 367 GFLOP/s. hardware/cpu_target.cc assumes 190 for
// AVX-512 on two cores.
#pragma once

namespace plimsoll {

enum class CpuWork {
  kProduct,
  // matrix products of fp32 operands on AMX tiles, which multiply bf16: each operand is split into a sum of bf16 numbers
  kProductOfParts,
  kAttention,
  kAttentionBackward,
  kAttentionOnTiles,  // attention on AMX tiles, in bf16
  kAttentionBackwardOnTiles,
  kElements,      // element-wise ops and norms
  kUpdateOfCodes  // updates of 8-bit optimizer states
};

// Returns the rate of this kind of work as a fraction of the rate of matrix products in the same data type. The value for
// attention on AMX tiles applies to heads of size kCpuTilesHeadSize.
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

// The assumed rate in GB/s at which a rank on a CPU sends data to another rank. It was not measured. It is the rate of a TCP
// connection of 10 Gbit/s, and roughly that between two processes on one machine, whose data the kernel copies.
inline constexpr double kCpuRankLinkGbPerS = 1.0;

}  // namespace plimsoll
