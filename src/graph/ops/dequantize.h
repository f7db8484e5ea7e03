// dequantize(codes, scales, second_scales?, offsets?) {format, rows, columns, parts, dtype}: a frozen weight
// that lies in 4 or 8 bits, back in numbers; kernels/quantization/quantization.h has the formulas. It has no
// gradient, and is computed again where the backward pass reads it.
#pragma once

#include <string>

#include "graph/ops/op.h"

namespace plimsoll {

const OpSchema& dequantize_op();

// The names of a matrix's other arrays; the codes have the weight's own.
std::string scales_name(const std::string& weight);
std::string second_scales_name(const std::string& weight);
std::string offsets_name(const std::string& weight);

}  // namespace plimsoll
