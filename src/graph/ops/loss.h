// Shared parts of losses: a loss is one number, and the gradient of its first input is computed by an op that reads the inputs of the loss
// and d_loss. Pure; thread-safe.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "graph/ops/ops.h"

namespace plimsoll {

// The type of a loss: one number, in fp32 if the logits are in 16 bits.
ValueType loss_type(const OpView& op);

// If the gradient of the loss's first input is wanted, emits the op `backward`, which computes it. The inputs of `backward` are those of
// the loss and d_loss, and its attributes are those of the loss.
void set_loss_gradient(GradientContext& context, const OpSchema& backward);

// Inputs of backward ops: kClassLossBwdInputs is for losses with one class per row (cross entropy), and kElementLossBwdInputs for losses
// with one numeric label per logit (mean squared error, binary cross entropy).
inline constexpr std::array kClassLossBwdInputs{
    InputOperand::required(ClassLossBwdOp::kLogits, "logits"),
    InputOperand::required(ClassLossBwdOp::kLabels, "labels"),
    InputOperand::required(ClassLossBwdOp::kDenominator, "denominator"),
    InputOperand::required(ClassLossBwdOp::kDLoss, "d_loss")};
inline constexpr std::array kElementLossBwdInputs{
    InputOperand::required(ElementLossBwdOp::kLogits, "logits"),
    InputOperand::required(ElementLossBwdOp::kLabels, "labels"),
    InputOperand::required(ElementLossBwdOp::kDenominator, "denominator"),
    InputOperand::num_sequences(ElementLossBwdOp::kNumSequences),
    InputOperand::required(ElementLossBwdOp::kDLoss, "d_loss")};

// loss_bwd(inputs of the loss, d_loss_1) computes the gradient of the loss's first input. The result may overwrite that input.
class LossBwd final : public OpSchema {
 public:
  struct Figures {
    std::string_view name;  // name of the backward op
    OpGroup group;
    std::span<const InputOperand> inputs;
    double flops;  // number of FLOPs per element of the first input
  };
  explicit LossBwd(const Figures& figures) : figures_(figures) {}
  std::span<const InputOperand> inputs() const override { return figures_.inputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  std::string_view name() const override { return figures_.name; }
  OpGroup group() const override { return figures_.group; }
  std::vector<ValueType> output_types(const OpView& op) const override;
  double flops(const OpView& op, const Bucket& bucket) const override;
  // If labels are classes, the gradients of unused rows after the last token are zero, because the label of such a row is kNoLabel.
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    if (!op.out_shape(ClassLossBwdOp::kDLogits).has_token_rows()) return {Tail::kNone};
    return {op.input(ClassLossBwdOp::kLabels).type.dtype == DType::kI32 ? Tail::kZero : Tail::kFinite};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {ClassLossBwdOp::kLogits}; }

 private:
  static constexpr std::array kOutputs{OutputOperand::required(ClassLossBwdOp::kDLogits, "d_logits")};
  Figures figures_;
};

}  // namespace plimsoll
