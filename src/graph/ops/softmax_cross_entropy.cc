// softmax_cross_entropy(logits, labels, denominator) {smoothing, z_loss?}: the fusion of log_softmax (log_softmax.cc) and nll (nll.cc). No
// probabilities are kept; the backward op may write d_logits over the logits. With {z_loss}, the loss also contains the z-loss, which is
// {z_loss} times the mean of log(Z)^2, where Z is the sum of the exponentials of a row. The z-loss alone is a second output.
#include <array>

#include "graph/ops/loss.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class SoftmaxCrossEntropy final : public OpSchema, private ClassLossOp {
 public:
  std::string_view name() const override { return "softmax_cross_entropy"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kLogits).rank() == 2 && op.input(kLabels).type.dtype == DType::kI32, op,
                    "logits[B,K], labels i32[B], denominator[1]");
    std::vector<ValueType> types{loss_type(op)};
    if (z_coefficient_of(op.attributes()) > 0.0) types.push_back(loss_type(op));
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    set_loss_gradient(context, softmax_cross_entropy_bwd_op());
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    PLIMSOLL_CHECK(z_coefficient_of(op.attributes) == 0.0, "a loss over log-probabilities has no z-loss");
    const ValueId log_p = emit(graph, log_softmax_op(), {op.inputs[kLogits]});
    return {emit(graph, nll_op(), {log_p, op.inputs[kLabels], op.inputs[kDenominator]}, op.attributes)};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLogits, "logits"),
                                      InputOperand::required(kLabels, "labels"),
                                      InputOperand::required(kDenominator, "denominator")};
  static constexpr std::array kOutputs{OutputOperand::required(kLoss, "loss"),
                                       OutputOperand::conditional(kZLoss, "z_loss")};
};

}  // namespace

Attributes class_loss_attributes(const Attributes& of_op) {
  Attributes attributes{{"smoothing", of_op.number("smoothing")}};
  if (of_op.has(kZCoefficient)) attributes.set(kZCoefficient, of_op.number(kZCoefficient));
  return attributes;
}

const OpSchema& softmax_cross_entropy_op() {
  static const SoftmaxCrossEntropy op;
  return op;
}
const OpSchema& softmax_cross_entropy_bwd_op() {
  static const LossBwd op({.name = "softmax_cross_entropy_bwd",
                           .group = OpGroup::kNormalization,
                           .inputs = kClassLossBwdInputs,
                           .flops = 15.0});
  return op;
}

}  // namespace plimsoll
