// dequantize(codes, scales, second_scales?, offsets?) {format, rows, columns, parts, dtype}: the numbers of a frozen
// weight that is stored in 4 or 8 bits; kernels/quantization/quantization.h has the formulas. The op has no gradient.
// If the backward pass reads its result, the op is repeated there instead of keeping the result.
#pragma once

#include <string>

#include "graph/ops/op.h"

namespace plimsoll {

const OpSchema& dequantize_op();

// Return the names of the other arrays of a quantized weight. The array of codes has the name of the weight itself.
std::string scales_name(const std::string& weight);
std::string second_scales_name(const std::string& weight);
std::string offsets_name(const std::string& weight);

}  // namespace plimsoll
