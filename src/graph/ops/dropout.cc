// dropout(x, rng) {p, site}: y = x * mask / (1 - p), the mask drawn per element by counter (base/philox.h),
// so that the same op is its own gradient and a recomputed mask is the same mask. Source: Srivastava et al.,
// JMLR 15 (2014).
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Dropout final : public OpSchema {
 public:
  std::string_view name() const override { return "dropout"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.input(1).type.dtype == DType::kI64, op, "x, rng i64[2]");
    const double p = op.attributes().number("p");
    expect_operands(p > 0.0 && p < 1.0, op, "0 < p < 1");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[0] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue || !context.wants(0)) return;
    context.set(
        0, emit(context.graph(), *this, {d_y, context.op().inputs[1]}, context.op().attributes, "d_dropout"));
  }
};

}  // namespace

const OpSchema& dropout_op() {
  static const Dropout op;
  return op;
}

ValueId emit_dropout(Graph& graph, ValueId x, ValueId rng, const DropoutSpec& spec, std::string_view name) {
  if (spec.p == 0.0) return x;
  return emit(graph, dropout_op(), {x, rng}, {{"p", spec.p}, {"site", spec.site}}, name);
}

}  // namespace plimsoll
