// tanh(x). tanh_bwd(y, d_y): d_x = d_y (1 - y^2), from the output.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Tanh final : public OpSchema {
 public:
  std::string_view name() const override { return "tanh"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 1, op, "x");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 10.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[0] : Tail::kNone};  // tanh(0) = 0
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue || !context.wants(0)) return;
    context.set(0, emit(context.graph(), tanh_bwd_op(), {context.op().outputs[0], d_y}));
  }
};

class TanhBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "tanh_bwd"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.in_shape(0) == op.in_shape(1), op,
                    "two operands of one shape");
    return {op.input(1).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 10.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[1] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0, 1}; }
};

}  // namespace

const OpSchema& tanh_op() {
  static const Tanh op;
  return op;
}
const OpSchema& tanh_bwd_op() {
  static const TanhBwd op;
  return op;
}

}  // namespace plimsoll
