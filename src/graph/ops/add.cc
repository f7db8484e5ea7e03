// add(a, b): c = a + b, element by element; a and b have one type. The tail is zero where both are.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Add final : public OpSchema {
 public:
  std::string_view name() const override { return "add"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.input(0).type == op.input(1).type, op,
                    "two operands of one type");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(0).has_token_rows()) return {Tail::kNone};
    return {inputs[0] == Tail::kZero && inputs[1] == Tail::kZero ? Tail::kZero : Tail::kFinite};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0, 1}; }
  void gradient(GradientContext& context) const override {
    const ValueId d_c = context.d_output(0);
    if (d_c == kNoValue) return;
    if (context.wants(0)) context.set(0, d_c);
    if (context.wants(1)) context.set(1, d_c);
  }
};

}  // namespace

const OpSchema& add_op() {
  static const Add op;
  return op;
}

}  // namespace plimsoll
