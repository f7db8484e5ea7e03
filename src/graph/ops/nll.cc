// nll(log_p, labels, denominator) {smoothing}: loss_1 = sum over rows with label >= 0 of (1 - e) (-log_p[label]) -
// e/K sum_k log_p[k], divided by the denominator: the number of real rows of the whole optimizer step, so that
// accumulated micro-batches give the mean over the real batch. Source: transformers' LabelSmoother.
#include <array>

#include "graph/ops/loss.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Nll final : public OpSchema, private ClassLossOp {
 public:
  std::string_view name() const override { return "nll"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kLogits).rank() == 2 && op.input(kLabels).type.dtype == DType::kI32, op,
                    "log_p[B,K], labels i32[B], denominator[1]");
    return {loss_type(op)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  void gradient(GradientContext& context) const override { set_loss_gradient(context, nll_bwd_op()); }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLogits, "logits"),
                                      InputOperand::required(kLabels, "labels"),
                                      InputOperand::required(kDenominator, "denominator")};
  static constexpr std::array kOutputs{OutputOperand::required(kLoss, "loss")};
};

}  // namespace

const OpSchema& nll_op() {
  static const Nll op;
  return op;
}
const OpSchema& nll_bwd_op() {
  static const LossBwd op(
      {.name = "nll_bwd", .group = OpGroup::kElementWise, .inputs = kClassLossBwdInputs, .flops = 6.0});
  return op;
}

}  // namespace plimsoll
