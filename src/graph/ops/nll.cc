// nll(log_p, labels, denominator) {smoothing}: loss_1 = sum over rows with label >= 0 of
// (1 - e) (-log_p[label]) - e/K sum_k log_p[k], divided by the denominator: the number of real rows of the
// whole optimizer step, so that accumulated micro-batches give the mean over the real batch. Source:
// transformers' LabelSmoother.
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
    context.set(0, emit(context.graph(), nll_bwd_op(), std::move(inputs), op.attributes, "d_logits"));
  }
};

class NllBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "nll_bwd"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 4, op, "the inputs of nll and d_loss[1]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
};

}  // namespace

const OpSchema& nll_op() {
  static const Nll op;
  return op;
}
const OpSchema& nll_bwd_op() {
  static const NllBwd op;
  return op;
}

}  // namespace plimsoll
