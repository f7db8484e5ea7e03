// cast(x) {dtype}: the same numbers in another floating-point type, rounded to nearest, ties to even. Its gradient is
// a cast back.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Cast final : public OpSchema, private CastOp {
 public:
  std::string_view name() const override { return "cast"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const auto dtype = parse_dtype(op.attributes().word("dtype"));
    expect_operands(dtype && is_floating(*dtype), op,
                    "x, and the name of a floating-point type as the attribute 'dtype'");
    return {{*dtype, op.in_shape(kX)}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kY).has_token_rows() ? inputs[kX] : Tail::kNone};
  }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    const Value& x = context.graph().value(context.op().inputs[kX]);
    const Attributes attributes{{"dtype", std::string(dtype_name(x.type.dtype))}};
    context.set(kX, emit(context.graph(), *this, {d_y}, attributes, "d_" + x.name));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& cast_op() {
  static const Cast op;
  return op;
}

}  // namespace plimsoll
