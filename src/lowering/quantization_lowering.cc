// Lowers ops on quantized weights, that is, describes them as problems for their kernels.
#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Describes a dequantization. The kernel is chosen by the element type of the dequantized weight, because the inputs are integer
// codes and scales.
LoweredOp describe_dequantize(const OpView& op, const Bucket&, const KernelTarget&) {
  return {.dtype = op.output(DequantizeOp::kWeight).type.dtype};
}

}  // namespace

std::vector<Lowering> quantization_lowerings() {
  return {{&dequantize_op(), "dequantize", describe_dequantize},
          {&quantize_fp8_op(), "quantize_fp8", describe_type<QuantizeFp8Op::kX>}};
}

}  // namespace plimsoll
