// dropout(x, rng) {p, site}: y = x * mask / (1 - p). The mask of an element depends only on the element's number (a counter-based
// generator, base/philox.h), so a recomputed mask is the same mask, and the gradient is the same op applied to d_y. {site} separates the
// random numbers of this op from those of other ops. Source: Srivastava et al., JMLR 15 (2014).
//
// With {tensor_ranks}, the ranks of a tensor-parallel group divide the columns of a value equally, and x consists of the columns of this
// rank. The number of an element is its index in the undivided value, so that the mask is the same as on a single rank that has all
// columns.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Dropout final : public OpSchema, private DropoutOp {
 public:
  std::string_view name() const override { return "dropout"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.input(kRng).type.dtype == DType::kI64, op, "x, rng i64[2]");
    const double p = op.attributes().number("p");
    expect_operands(p > 0.0 && p < 1.0, op, "0 < p < 1");
    return {op.input(kX).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kY).has_token_rows() ? inputs[kX] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kX}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    context.set(kX, emit(context.graph(), *this, {d_y, context.op().inputs[kRng]}, context.op().attributes,
                         "d_dropout"));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::random_state(kRng, Presence::kRequired)};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
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
