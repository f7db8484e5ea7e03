// cast(x) {dtype}: the same numbers in another floating-point type, rounded to nearest, ties to even. Its
// gradient is a cast back.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Cast final : public OpSchema {
 public:
  std::string_view name() const override { return "cast"; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> infer(const OpView& op) const override {
    const auto dtype = parse_dtype(op.attributes().word("dtype"));
    expect_operands(op.num_inputs() == 1 && dtype && is_floating(*dtype), op, "x and a floating-point type");
    return {{*dtype, op.in_shape(0)}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[0] : Tail::kNone};
  }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue || !context.wants(0)) return;
    const Value& x = context.graph().value(context.op().inputs[0]);
    const Attributes attributes{{"dtype", std::string(dtype_name(x.type.dtype))}};
    context.set(0, emit(context.graph(), *this, {d_y}, attributes, "d_" + x.name));
  }
};

}  // namespace

const OpSchema& cast_op() {
  static const Cast op;
  return op;
}

}  // namespace plimsoll
