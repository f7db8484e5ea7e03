// bce_with_logits(logits, labels, denominator, num_sequences): binary cross-entropy of each class, summed
// over the real rows, divided by denominator * K (multi-label classification; torch.nn.BCEWithLogitsLoss).
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class BceWithLogits final : public OpSchema {
 public:
  std::string_view name() const override { return "bce_with_logits"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 4 && op.in_shape(0) == op.in_shape(1), op,
                    "logits[B,K], labels[B,K], denominator[1], num_sequences i32[1]");
    const DType dtype = op.input(0).type.dtype;
    return {{dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{1}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const ValueId d_loss = context.d_output(0);
    if (d_loss == kNoValue || !context.wants(0)) return;
    std::vector<ValueId> inputs = op.inputs;
    inputs.push_back(d_loss);
    context.set(
        0, emit(context.graph(), bce_with_logits_bwd_op(), std::move(inputs), op.attributes, "d_logits"));
  }
};

class BceWithLogitsBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "bce_with_logits_bwd"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 5, op, "the inputs of bce_with_logits and d_loss[1]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
};

}  // namespace

const OpSchema& bce_with_logits_op() {
  static const BceWithLogits op;
  return op;
}
const OpSchema& bce_with_logits_bwd_op() {
  static const BceWithLogitsBwd op;
  return op;
}

}  // namespace plimsoll
