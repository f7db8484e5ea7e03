// How much of a GPU's rates on paper a training step of this program reaches, and what an op takes at the
// least: what turns operations and bytes into an estimate of time. Pure data; thread-safe: constants.
//
// Where the shares come from: the steps of docs/measurements/h200-2026-11-22.md on an H200 (whose rates on
// paper are those of hardware/gpu_target.cc).
//  1. Bytes: AdamW's 9.4 GB in 2.35 ms: 4.0 of 4.8 TB/s.
//  2. Attention, forward and backward: of 32 x 16 x 512 x 64 with dropout 0.170 and 0.410 ms in bf16, which
//     lies between the benchmark's and the profile's, 0.275 and 0.859 ms in tf32; in fp32 as `train
//     --profile` has it for 4 x 512, 30 and 19 TFLOP/s.
//  3. Products in fp32 and tf32 and the times of their tiles by least squares of the logarithms over 23
//     steps: 1 x 512 with and without accumulation, checkpointing and copies of weights at use, 4, 8 and 32 x
//     512, short texts, in fp32, tf32, tf32x3, bf16 and fp16, with LoRA and QLoRA. A product that does not
//     fill the card takes the longer, the slower the units are that it runs on. An op takes sqrt(a^2 + b^2)
//     of its time at these rates and its least time.
//  4. The share of products in 16 bits and both least times, over these steps and the table of experiments of
//     docs/measurements/h200-2026-11-23.md: casts of weights and their making from codes, which the rows with
//     copies at use and QLoRA have most of, say how short an op is that is no product; batches of 4 and 1 how
//     short a product is; batches of 32, which the card's power limits (434 to 451 samples/s on four hosts),
//     what share products reach. PyTorch's own over the case 32 x 512 reached 0.687.
// With these the 20 steps that operations_test holds to 10 % come out so, 18 of them within 5 %, and the
// table of experiments as its page says. Other cards are taken to reach the same shares; nothing was measured
// on them.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/dtype.h"

namespace plimsoll {

enum class GpuWork { kProduct, kAttention, kAttentionBackward, kOther };

// What the operands of a product are rounded to.
enum class GpuPrecision { kF32, kTf32, kHalf };

// Of the data sheet's FLOP/s. Requires: work is not kOther.
constexpr double gpu_share_of_flops(GpuWork work, GpuPrecision precision) {
  const bool is_product = work == GpuWork::kProduct;
  const bool is_forward = work == GpuWork::kAttention;
  switch (precision) {
    case GpuPrecision::kF32:
      return is_product ? 0.735 : is_forward ? 0.45 : 0.29;
    case GpuPrecision::kTf32:
      return is_product ? 0.553 : is_forward ? 0.25 : 0.20;
    case GpuPrecision::kHalf:
      return is_product ? 0.667 : is_forward ? 0.205 : 0.212;
  }
  return 1;
}

// Of the data sheet's bytes a second.
inline constexpr double kGpuShareOfBandwidth = 0.83;

// Of the link to the host's memory, while one direction alone is in use and while both are: packets and
// acknowledgements take the rest. Measured on an H200 with cudaMemcpyAsync of pinned memory, pieces of 8 MiB:
// 54 GB/s one way, 49.5 each way of 64 (docs/measurements/h200-2026-11-23.md).
inline constexpr double kGpuShareOfLinkOneWay = 0.845;
inline constexpr double kGpuShareOfLinkBothWays = 0.775;
// Milliseconds between two copies of a queue, fitted to the rows with offloads of `bench --experiments`: the
// smallest run of BERT-large has 522 copies a step, that with exact masters 1472. They took 12 and 22 % longer
// than estimated by the bytes on an H100, the first 7 % on an H200 (9, 13 and 3 % with it).
inline constexpr double kGpuBetweenCopiesMs = 0.008;

// Milliseconds, launch included, within a captured program: of a product, and of what is no contraction.
inline constexpr double kGpuLeastMs = 0.0064;
inline constexpr double kGpuLeastElementsMs = 0.0034;
// Of Adafactor over one module, fitted to one row and not traced: the 102 updates of BERT-large in its
// backward pass took 9.2 ms more than their bytes on an H100 (docs/measurements/h100-2026-11-25.md).
inline constexpr double kGpuLeastAdafactorMs = 0.09;

constexpr double gpu_least_attention_ms() {
  return 0.0245;
}

// Of a product [m, k] x [k, n]: one tile of its result on one multiprocessor. Tiles are up to 128 wide and at
// least 32; what is deeper than 1024 is split among multiprocessors. The narrow products of adapters take
// little.
constexpr double gpu_least_product_ms(GpuPrecision precision, double m, double n, double k) {
  const double tile_ms = precision == GpuPrecision::kF32    ? 0.0647
                         : precision == GpuPrecision::kTf32 ? 0.0256
                                                            : kGpuLeastMs;
  const double of_tile = std::clamp(m, 32.0, 128.0) * std::clamp(n, 32.0, 128.0) * std::min(k, 1024.0) /
                         (128.0 * 128.0 * 1024.0);
  return std::max(kGpuLeastMs, tile_ms * of_tile);
}

inline constexpr std::string_view kGpuEfficiencyProvenance =
    "shares of them that an H200 reached on 2026-11-22 (docs/measurements)";

}  // namespace plimsoll
