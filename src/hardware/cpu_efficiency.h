// The fraction of a CPU's rate for matrix products that other work of a training step reaches. It converts
// operations and bytes into time estimates for ops that are not matrix products. Pure data; thread-safe:
// constants.
//
// The fractions were measured on one thread of a Zen 4 with AVX-512 and BF16 (AMD EPYC, 2026-11-22), whose
// matrix products for MiniLM-L6-H384 reach 100 GFLOP/s in fp32 and 180 in bf16. Each is the shortest time of
// an op over the layers and steps of `train --profile`, because other users shared the machine. In GFLOP/s,
// with the ops' own counts:
//  1. Attention with 512 tokens in fp32: 54 forward, 79 backward; with 128 tokens: 44 in fp32 and 52 in bf16.
//     Without AMX it multiplies in fp32 whatever its operands are rounded to.
//  2. GELU and its gradient: 20 to 26 in fp32, 15 to 17 in bf16, in blocks that fit into caches; fused
//     dropout, residual and norm: 16 to 25.
//  3. AdamW with 8-bit states: 9.4.
// With these, steps of MiniLM-L6-H384 (4 x 512, one thread) are predicted within 12 % of their processor time
// (operations_test requires 15 %).
//
// Attention on AMX tiles, for BERT-base 8 x 128 in bf16 on two cores of a Sapphire Rapids (2026-11-22, other
// work on the other cores), two runs of `train --profile`: 0.83 ns forward and 1.32 ns backward per score,
// for both cores together. For MiniLM-L6-H384 4 x 512, whose heads are half as wide, on two cores of an
// H200's host (2026-11-23): 0.82 and 1.38. A score thus takes the same time with both widths: its exponential
// and its place in tiles cost more than the products. A fraction of FLOP/s for heads of width 64 is therefore
// smaller for narrower heads.
//
// Products of fp32 matrices on AMX tiles, for BERT-base 8 x 128 on two such cores (2026-11-23, other work on
// the other cores), two runs of `train --profile`: 254 and 367 GFLOP/s, compared to 190 in the table for
// AVX-512.
#pragma once

namespace plimsoll {

enum class CpuWork {
  kProduct,
  // matrix products of fp32 operands on AMX tiles, where each operand is split into bf16 parts
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
