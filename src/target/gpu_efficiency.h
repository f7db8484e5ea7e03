// How much of a GPU's rates on paper a training step of this program reaches, and what an op takes at the
// least: what turns operations and bytes into an estimate of time. Pure data; thread-safe: constants.
//
// Where the shares come from: fitted to the steps of docs/measurements/h200-2026-11-21.md on an H200 (whose
// rates on paper are those of target/gpu_target.cc), one term after the other.
//  1. Products: PyTorch's own rates over each case's products, there under "a step's floor": 679 of 989
//  TFLOP/s in bf16,
//     282 of 494 in tf32, 47 of 67 in fp32.
//  2. Bytes: AdamW's 9.4 GB in 2.35 ms, there too: 4.0 of 4.8 TB/s.
//  3. Attention: what is left of the step of 32 x 512 in bf16 (81.63 ms) and in tf32 (196 samples/s), and of
//  4 x 512 in
//     fp32 (101.06 ms), after products and bytes: 119, 86 and 22 TFLOP/s.
//  4. The least times: from steps whose ops are small, 1 x 512 with and without accumulation 4 and 4 x 512,
//  in bf16 (143.8
//     and 298 samples/s), fp32 (29.5, 31.0) and tf32 (152). A product that does not fill the card takes the
//     longer, the slower the units are that it runs on. An op takes sqrt(a^2 + b^2) of its time at these
//     rates and its least time.
// With these the ten steps come out within 10 % of what was measured (operations_test holds them to 15 %).
// Other cards are taken to reach the same shares; nothing was measured on them.
#pragma once

#include <string_view>

#include "base/dtype.h"

namespace plimsoll {

enum class GpuWork { kProduct, kAttention, kOther };

// What the operands of a product are rounded to.
enum class GpuPrecision { kF32, kTf32, kHalf };

// Of the data sheet's FLOP/s.
constexpr double gpu_share_of_flops(GpuWork work, GpuPrecision precision) {
  const bool is_product = work == GpuWork::kProduct;
  switch (precision) {
    case GpuPrecision::kF32:
      return is_product ? 0.70 : 0.33;
    case GpuPrecision::kTf32:
      return is_product ? 0.57 : 0.174;
    case GpuPrecision::kHalf:
      return is_product ? 0.687 : 0.120;
  }
  return 1;
}

// Of the data sheet's bytes a second.
inline constexpr double kGpuShareOfBandwidth = 0.83;

// Of the link to the host's memory: packets and acknowledgements take the rest. Not measured on a card.
inline constexpr double kGpuShareOfLink = 0.85;

// Milliseconds, launch included, within a captured program.
constexpr double gpu_least_ms(GpuWork work, GpuPrecision precision) {
  switch (work) {
    case GpuWork::kProduct:
      return precision == GpuPrecision::kF32 ? 0.056 : precision == GpuPrecision::kTf32 ? 0.030 : 0.010;
    case GpuWork::kAttention:
      return 0.020;
    case GpuWork::kOther:
      return 0.0035;
  }
  return 0;
}

inline constexpr std::string_view kGpuEfficiencyProvenance =
    "shares of them that an H200 reached on 2026-11-21 (docs/measurements)";

}  // namespace plimsoll
