// scale_shift(n, gain, bias): y_TC = n gain_C + bias_C, the affine half of a layer norm.
// scale_shift_bwd(n, gain, d_y, into_gain?, into_bias?, flag?): d_n = d_y gain; d_gain = column sums of d_y
// n; d_bias = column sums of d_y, whose rows must be zero on the tail.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class ScaleShift final : public OpSchema {
 public:
  std::string_view name() const override { return "scale_shift"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 3 && op.in_shape(0).rank() == 2 && op.in_shape(1).rank() == 1 &&
                        op.in_shape(0)[1] == op.in_shape(1)[0] && op.in_shape(1) == op.in_shape(2),
                    op, "n[T,C], gain[C], bias[C]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue) return;
    const Graph& graph = context.graph();
    const std::array<std::string, 3> names{"d_normalized", "d_" + graph.value(op.inputs[1]).name,
                                           "d_" + graph.value(op.inputs[2]).name};
    const auto out = emit_all(context.graph(), scale_shift_bwd_op(),
                              {op.inputs[0], op.inputs[1], d_y, kNoValue, kNoValue, kNoValue}, {}, names);
    for (int i = 0; i < 3; ++i) {
      if (context.wants(i)) context.set(i, out[static_cast<size_t>(i)]);
    }
  }
};

class ScaleShiftBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "scale_shift_bwd"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 6 && op.in_shape(0) == op.in_shape(2), op,
                    "n[T,C], gain[C], d_y[T,C], into_gain, into_bias, flag");
    return {op.input(2).type, sum_type(op.input(1).type), sum_type(op.input(1).type)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 4.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(0).has_token_rows()) return {Tail::kNone, Tail::kNone, Tail::kNone};
    expect_zero_tail(inputs[2], op, "gradient");
    return {Tail::kZero, Tail::kNone, Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{2} : std::vector<int>{};
  }
  int into_input(const OpView&, int output) const override { return output == 0 ? -1 : output + 2; }
  int accumulate_flag_input() const override { return 5; }
};

}  // namespace

const OpSchema& scale_shift_op() {
  static const ScaleShift op;
  return op;
}
const OpSchema& scale_shift_bwd_op() {
  static const ScaleShiftBwd op;
  return op;
}

}  // namespace plimsoll
