// global_norm(g_0, g_1, ...): norm_1 = sqrt(sum of squares of all elements), finite_1 = 1 where all are
// finite, else 0. clip_coefficient(norm, scale?) {max_norm}: min(1, max_norm / (norm + 1e-6)), 1 where
// max_norm is 0 (torch.nn.utils.clip_grad_norm_); with a loss scale, norm is that of scaled gradients, and
// what multiplies them is min(1, max_norm / (norm / scale + 1e-6)) / scale.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

DType scalar_type(const OpView& op) {
  return op.input(0).type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

class GlobalNorm final : public OpSchema {
 public:
  std::string_view name() const override { return "global_norm"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() >= 1, op, "at least one gradient");
    const ValueType scalar{scalar_type(op), Shape{1}};
    return {scalar, scalar};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    double elements = 0;
    for (int i = 0; i < op.num_inputs(); ++i)
      elements += static_cast<double>(op.in_shape(i).elements(bucket));
    return 2.0 * elements;
  }
};

class ClipCoefficient final : public OpSchema {
 public:
  std::string_view name() const override { return "clip_coefficient"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 1 || op.num_inputs() == 2, op, "norm[1] and perhaps scale[1]");
    return {op.input(0).type};
  }
  double flops(const OpView&, const Bucket&) const override { return 3; }
};

}  // namespace

const OpSchema& global_norm_op() {
  static const GlobalNorm op;
  return op;
}
const OpSchema& clip_coefficient_op() {
  static const ClipCoefficient op;
  return op;
}

}  // namespace plimsoll
