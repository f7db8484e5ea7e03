// nll(log_p, labels, denominator) {smoothing}: loss_1 = sum over rows with label >= 0 of
// (1 - e) (-log_p[label]) - e/K sum_k log_p[k], divided by the denominator: the number of real rows of the
// whole optimizer step, so that accumulated micro-batches give the mean over the real batch. Source:
// transformers' LabelSmoother.
#include "graph/ops/loss.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Nll final : public OpSchema {
 public:
  std::string_view name() const override { return "nll"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(
        op.num_inputs() == 3 && op.in_shape(0).rank() == 2 && op.input(1).type.dtype == DType::kI32, op,
        "log_p[B,K], labels i32[B], denominator[1]");
    return {loss_type(op)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  void gradient(GradientContext& context) const override { set_loss_gradient(context, nll_bwd_op()); }
};

}  // namespace

const OpSchema& nll_op() {
  static const Nll op;
  return op;
}
const OpSchema& nll_bwd_op() {
  static const LossBwd op({.name = "nll_bwd", .group = OpGroup::kElementWise, .num_inputs = 3, .flops = 6.0});
  return op;
}

}  // namespace plimsoll
