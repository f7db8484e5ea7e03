// dequantize(codes, scales, second_scales?, offsets?) {format, rows, columns, parts, dtype}: the numbers of a
// frozen weight that is stored in 4 or 8 bits; kernels/quantization/quantization.h has the formulas. The op has
// no gradient. If the backward pass needs the result, it runs the op again, so that the result need not be kept.
#pragma once

#include <string>

#include "graph/ops/op.h"

namespace plimsoll {

const OpSchema& dequantize_op();

// Return the names of the arrays of a quantized weight, except that of its codes, which has the name of the weight itself.
std::string scales_name(const std::string& weight);
std::string second_scales_name(const std::string& weight);
std::string offsets_name(const std::string& weight);

}  // namespace plimsoll
