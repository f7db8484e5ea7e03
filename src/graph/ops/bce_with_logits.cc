// bce_with_logits(logits, labels, denominator, num_sequences): binary cross-entropy of each class, summed over the
// real rows, divided by denominator * K (multi-label classification; torch.nn.BCEWithLogitsLoss).
#include <array>

#include "graph/ops/loss.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class BceWithLogits final : public OpSchema, private ElementLossOp {
 public:
  std::string_view name() const override { return "bce_with_logits"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kLogits) == op.in_shape(kLabels), op,
                    "logits[B,K], labels[B,K], denominator[1], num_sequences i32[1]");
    return {loss_type(op)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    set_loss_gradient(context, bce_with_logits_bwd_op());
  }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kLogits, "logits"), InputOperand::required(kLabels, "labels"),
      InputOperand::required(kDenominator, "denominator"), InputOperand::num_sequences(kNumSequences)};
  static constexpr std::array kOutputs{OutputOperand::required(kLoss, "loss")};
};

}  // namespace

const OpSchema& bce_with_logits_op() {
  static const BceWithLogits op;
  return op;
}
const OpSchema& bce_with_logits_bwd_op() {
  static const LossBwd op({.name = "bce_with_logits_bwd",
                           .group = OpGroup::kElementWise,
                           .inputs = kElementLossBwdInputs,
                           .flops = 6.0});
  return op;
}

}  // namespace plimsoll
