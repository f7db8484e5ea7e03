// bce_with_logits(logits, labels, denominator, num_sequences): binary cross-entropy of each class, summed
// over the real rows, divided by denominator * K (multi-label classification; torch.nn.BCEWithLogitsLoss).
#include "graph/ops/loss.h"
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
    return {loss_type(op)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    set_loss_gradient(context, bce_with_logits_bwd_op());
  }
};

}  // namespace

const OpSchema& bce_with_logits_op() {
  static const BceWithLogits op;
  return op;
}
const OpSchema& bce_with_logits_bwd_op() {
  static const LossBwd op(
      {.name = "bce_with_logits_bwd", .group = OpGroup::kElementWise, .num_inputs = 4, .flops = 6.0});
  return op;
}

}  // namespace plimsoll
