// Weights in 4 or 8 bits with scales. They are quantized on the host when a model is loaded and dequantized right
// before a product. The header states the contracts of these functions. Only quantize_weight
// allocates memory.
//
// A matrix [N, K] consists of `parts` groups of N / parts rows, each quantized separately. A part is the weight of one module of the
// checkpoint; the matrix combines several of them (for example query, key and value).
//
// 4 bits (Dettmers et al., QLoRA, arXiv 2305.14314): a part's elements, in order, form blocks of kQuantizationBlock elements; the last
// block may be shorter. A block stores its largest magnitude (absmax) and, for each element, the code whose number is nearest to x / absmax
// (the lower of two equally near numbers). Two codes share a byte, the first in the upper half. The codes of kNf4 represent the quantiles
// of a normal distribution, and those of kFp4 floating-point numbers with one sign bit, two bits of exponent and one bit of fraction. With
// double quantization the absmax values of a part, minus their mean (the offset), are quantized in turn, in blocks of kScaleBlock, to the
// 256 numbers of block-wise dynamic quantization (arXiv 2110.02861). Codes, scales and numbers equal those of bitsandbytes. The only
// difference is the mean: bitsandbytes sums in fp32 in another order, this code in double, so offsets may differ in the last place.
//
// 8 bits (the weights of LLM.int8, arXiv 2208.07339): a row stores its largest magnitude, and elements are
// round(127 x / absmax).
//
// Dequantization is computed in fp32 with exactly these roundings in every implementation (fl rounds to fp32): absmax = fl(fl(number2 *
// absmax2) + offset) with double quantization, w = fl(number * absmax), and for 8 bits w = fl(code * fl(absmax / 127)); then one rounding
// to the type of w.
//
// Thread-safe: constants and pure functions. Ownership: views do not own memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/quantization/quantization_catalog.h"

namespace plimsoll {

// Returns the 16 numbers that 4-bit codes encode, indexed by code.
std::span<const float, 16> four_bit_numbers(QuantizedFormat format);
// Returns the 256 numbers that the 8-bit codes of quantized scales encode, in ascending order.
std::span<const float, 256> scale_numbers();

// Quantizes one separately quantized part of a matrix. `scales` is f32 without double quantization; otherwise it is u8, and second_scales
// and offset are written too. Requires: the arrays have the sizes that quantized_sizes() returns for one part. Cost: linear in the number
// of elements.
struct QuantizeArgs {
  ConstView w;         // the weights, shape [rows, columns], any floating type
  View codes;          // output, the codes of the elements, u8
  View scales;         // absmax per block (8 bits: per row): f32, or u8 codes with double quantization
  View second_scales;  // output, the scales of the absmax codes, f32; only with double quantization
  View offset;  // output, the mean of the absmax values, f32, one element; only with double quantization
  int64_t rows = 0;
  int64_t columns = 0;
  QuantizedFormat format = QuantizedFormat::kNf4;
};
void quantize_weight(const QuantizeArgs& args);

// Dequantizes a matrix. Scratch: none. Cost: one product per element; codes and scales are read once and w is
// written once. Aliasing: none. Repeatability: exact.
struct DequantizeArgs {
  ConstView codes;
  ConstView scales;
  ConstView second_scales;  // absmax of each block of absmax codes; null without double quantization
  ConstView offsets;        // mean of the absmax values of each part; null without double quantization
  View w;                   // output, shape [rows, columns]; f32, bf16 or f16; f64 only for the reference
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t parts = 1;
  QuantizedFormat format = QuantizedFormat::kNf4;
};
void dequantize_ref(const DequantizeArgs& args);
void dequantize_cpu(const DequantizeArgs& args);

// dequantize_cuda() runs on an NVIDIA GPU and performs the same roundings as the reference, so it gives the same bits. element_wise/add.h
// states the rules for all CUDA kernels.

void dequantize_cuda(const DequantizeArgs& args, CudaStream stream);

}  // namespace plimsoll
