// gelu(x): y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks and Gimpel, arXiv 1606.08415). gelu_bwd(x, d_y): d_x =
// d_y gelu'(x).
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Gelu final : public OpSchema {
 public:
  std::string_view name() const override { return "gelu"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 1, op, "x");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 10.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[0] : Tail::kNone};  // gelu(0) = 0
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue || !context.wants(0)) return;
    context.set(0, emit(context.graph(), gelu_bwd_op(), {context.op().inputs[0], d_y}));
  }
};

class GeluBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "gelu_bwd"; }
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

const OpSchema& gelu_op() {
  static const Gelu op;
  return op;
}
const OpSchema& gelu_bwd_op() {
  static const GeluBwd op;
  return op;
}

}  // namespace plimsoll
