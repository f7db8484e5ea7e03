// softmax_cross_entropy(logits, labels, denominator) {smoothing}: the fusion of log_softmax and nll (see
// there); no probabilities are kept, the backward op may write d_logits over the logits.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class SoftmaxCrossEntropy final : public OpSchema {
 public:
  std::string_view name() const override { return "softmax_cross_entropy"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(
        op.num_inputs() == 3 && op.in_shape(0).rank() == 2 && op.input(1).type.dtype == DType::kI32, op,
        "logits[B,K], labels i32[B], denominator[1]");
    const DType dtype = op.input(0).type.dtype;
    return {{dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{1}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const ValueId d_loss = context.d_output(0);
    if (d_loss == kNoValue || !context.wants(0)) return;
    std::vector<ValueId> inputs = op.inputs;
    inputs.push_back(d_loss);
    context.set(0, emit(context.graph(), softmax_cross_entropy_bwd_op(), std::move(inputs), op.attributes,
                        "d_logits"));
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId log_p = emit(graph, log_softmax_op(), {op.inputs[0]});
    return {emit(graph, nll_op(), {log_p, op.inputs[1], op.inputs[2]}, op.attributes)};
  }
};

class SoftmaxCrossEntropyBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "softmax_cross_entropy_bwd"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 4, op, "the inputs of softmax_cross_entropy and d_loss[1]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
};

}  // namespace

const OpSchema& softmax_cross_entropy_op() {
  static const SoftmaxCrossEntropy op;
  return op;
}
const OpSchema& softmax_cross_entropy_bwd_op() {
  static const SoftmaxCrossEntropyBwd op;
  return op;
}

}  // namespace plimsoll
