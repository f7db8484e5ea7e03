// mse(logits, labels, denominator, num_sequences): squared differences summed over the real rows, divided by
// denominator * K (regression; torch.nn.MSELoss).
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Mse final : public OpSchema {
 public:
  std::string_view name() const override { return "mse"; }
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
    context.set(0, emit(context.graph(), mse_bwd_op(), std::move(inputs), op.attributes, "d_logits"));
  }
};

class MseBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "mse_bwd"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 5, op, "the inputs of mse and d_loss[1]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 6.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
};

}  // namespace

const OpSchema& mse_op() {
  static const Mse op;
  return op;
}
const OpSchema& mse_bwd_op() {
  static const MseBwd op;
  return op;
}

}  // namespace plimsoll
