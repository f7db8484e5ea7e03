// bias_add(x, bias): y_TC = x_TC + bias_C.
//
// bias_grad(d_y, into?, flag?): d_bias_C = sum of d_y over rows, in fp32 (fp64 for f64). Fixed blocks of rows are summed, and the sums are
// added in order. Tail rows of d_y (rows after the last token) must be zero.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class BiasAdd final : public OpSchema, private BiasAddOp {
 public:
  std::string_view name() const override { return "bias_add"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2 && op.in_shape(kBias).rank() == 1 &&
                        op.in_shape(kX)[1] == op.in_shape(kBias)[0],
                    op, "x[T,C], b[C]");
    return {op.input(kX).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kX}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue) return;
    if (context.wants(kBias)) {
      const Value& bias = context.graph().value(context.op().inputs[kBias]);
      const Attributes attributes{{"dtype", std::string(dtype_name(sum_dtype(bias.type.dtype)))}};
      const std::string name = "d_" + bias.name;
      context.set(kBias, emit(context.graph(), bias_grad_op(), {d_y, kNoValue, kNoValue}, attributes, name));
    }
    if (context.wants(kX)) context.set(kX, d_y);
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kBias, "bias")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class BiasGrad final : public OpSchema, private BiasGradOp {
 public:
  std::string_view name() const override { return "bias_grad"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kDY).rank() == 2, op, "d_y[T,C], into, flag");
    return {{stated_dtype(op, op.input(kDY).type.dtype), Shape{op.in_shape(kDY)[1]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.in_shape(kDY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (op.in_shape(kDY).has_token_rows()) expect_zero_tail(inputs[kDY], op, "gradient");
    return {Tail::kNone};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kDY, "d_y"),
                                      InputOperand::into(kInto, "into", kDBias),
                                      InputOperand::accumulate_flag(kFlag)};
  static constexpr std::array kOutputs{OutputOperand::required(kDBias, "d_bias")};
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
