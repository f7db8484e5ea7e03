// Weights in 4 or 8 bits with scales: made on the host when a model is loaded, turned back into numbers right
// before a product. Contracts; no graph, no allocation but where it is said.
//
// A matrix [N, K] consists of `parts` groups of N / parts rows that are quantized each for itself, as the
// modules of a checkpoint that lie in it are (query, key and value in one: three).
//
// 4 bits (Dettmers et al., QLoRA, arXiv 2305.14314): a part's elements, in order, form blocks of
// kQuantizationBlock, the last perhaps shorter. A block keeps its largest magnitude (absmax) and for each
// element the code whose number is nearest to x / absmax, the lower of two at their middle; codes lie two to
// a byte, the first in the upper half. kNf4 has the quantiles of a normal distribution, kFp4 1 + 2 + 1 bits
// of a floating-point number. With double quantization a part's absmax less their mean (the offset) are
// quantized in turn, in blocks of kScaleBlock, to the 256 numbers of block-wise dynamic quantization (arXiv
// 2110.02861). Codes, scales and numbers are those of bitsandbytes; its mean is summed in fp32 in an order of
// its own, ours in double, so that offsets may differ in the last place.
//
// 8 bits (LLM.int8, arXiv 2208.07339, the weights of it): a row keeps its largest magnitude, elements are
// round(127 x / absmax).
//
// Turning back is exact in fp32 with these roundings and no others, in every implementation: absmax =
// fl(fl(number2 * absmax2) + offset) with double quantization, w = fl(number * absmax), for 8 bits w =
// fl(code * fl(absmax / 127)); then one rounding to w's type.
//
// Thread-safe: constants and pure functions. Ownership: views borrow.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "kernels/quantization/quantization_catalog.h"

namespace plimsoll {

// The numbers of 4-bit codes, by code.
std::span<const float, 16> four_bit_numbers(QuantizedFormat format);
// The 256 numbers of 8-bit scales, ascending.
std::span<const float, 256> scale_numbers();

// One part, quantized. `scales` f32 without double quantization; otherwise u8, and then second_scales and
// offset are written too. Requires: sizes as quantized_sizes has them for one part. Cost: linear.
struct QuantizeArgs {
  ConstView w;         // [rows, columns], any floating type
  View codes;          // u8
  View scales;         // f32 or u8
  View second_scales;  // f32
  View offset;         // f32 [1]
  int64_t rows = 0;
  int64_t columns = 0;
  QuantizedFormat format = QuantizedFormat::kNf4;
};
void quantize_weight(const QuantizeArgs& args);

// A matrix back in numbers. Scratch: none. Cost: one product an element; codes and scales read once, w
// written once. Aliasing: none. Repeatability: exact.
struct DequantizeArgs {
  ConstView codes;
  ConstView scales;
  ConstView second_scales;  // absent without double quantization
  ConstView offsets;        // likewise
  View w;                   // [rows, columns]; f32, bf16 or f16, the reference f64 too
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t parts = 1;
  QuantizedFormat format = QuantizedFormat::kNf4;
};
void dequantize_ref(const DequantizeArgs& args);
void dequantize_cpu(const DequantizeArgs& args);

}  // namespace plimsoll
