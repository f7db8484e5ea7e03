// bias_add(x, b): y_TC = x_TC + b_C. bias_grad(d_y, into?, flag?): d_b_C = sum of d_y over rows, in fp32
// (fp64 for f64), fixed blocks of rows in order; its rows must be zero on the tail.
#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class BiasAdd final : public OpSchema {
 public:
  std::string_view name() const override { return "bias_add"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.in_shape(0).rank() == 2 && op.in_shape(1).rank() == 1 &&
                        op.in_shape(0)[1] == op.in_shape(1)[0],
                    op, "x[T,C], b[C]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue) return;
    if (context.wants(1)) {
      const Value& bias = context.graph().value(context.op().inputs[1]);
      const Attributes attributes{{"dtype", std::string(dtype_name(sum_dtype(bias.type.dtype)))}};
      const std::string name = "d_" + bias.name;
      context.set(1, emit(context.graph(), bias_grad_op(), {d_y, kNoValue, kNoValue}, attributes, name));
    }
    if (context.wants(0)) context.set(0, d_y);
  }
};

class BiasGrad final : public OpSchema {
 public:
  std::string_view name() const override { return "bias_grad"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 3 && op.in_shape(0).rank() == 2, op, "d_y[T,C], into, flag");
    return {{stated_dtype(op, op.input(0).type.dtype), Shape{op.in_shape(0)[1]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.in_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (op.in_shape(0).has_token_rows()) expect_zero_tail(inputs[0], op, "gradient");
    return {Tail::kNone};
  }
  int into_input(const OpView&, int) const override { return 1; }
  int accumulate_flag_input() const override { return 2; }
};

}  // namespace

const OpSchema& bias_add_op() {
  static const BiasAdd op;
  return op;
}
const OpSchema& bias_grad_op() {
  static const BiasGrad op;
  return op;
}

}  // namespace plimsoll
