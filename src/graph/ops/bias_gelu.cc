// bias_gelu(h, b): y_TF = gelu(h + b), the fusion of bias_add and gelu (erf form).
// bias_gelu_bwd(h, b, d_y, into?, flag?): d_h = d_y gelu'(h + b); d_b = column sums of d_h, whose rows must
// be zero on the tail.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class BiasGelu final : public OpSchema {
 public:
  std::string_view name() const override { return "bias_gelu"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.in_shape(0).rank() == 2 && op.in_shape(1).rank() == 1 &&
                        op.in_shape(0)[1] == op.in_shape(1)[0],
                    op, "h[T,F], b[F]");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 11.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_y = context.d_output(0);
    if (d_y == kNoValue) return;
    const std::array<std::string, 2> names{"d_" + context.graph().value(op.inputs[0]).name,
                                           "d_" + context.graph().value(op.inputs[1]).name};
    const auto out = emit_all(context.graph(), bias_gelu_bwd_op(),
                              {op.inputs[0], op.inputs[1], d_y, kNoValue, kNoValue}, {}, names);
    if (context.wants(0)) context.set(0, out[0]);
    if (context.wants(1)) context.set(1, out[1]);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return {emit(graph, gelu_op(), {emit(graph, bias_add_op(), {op.inputs[0], op.inputs[1]})})};
  }
};

class BiasGeluBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "bias_gelu_bwd"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 5 && op.in_shape(0) == op.in_shape(2), op,
                    "h[T,F], b[F], d_y[T,F], into, flag");
    return {op.input(2).type, sum_type(op.input(1).type)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 16.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(0).has_token_rows()) return {Tail::kNone, Tail::kNone};
    expect_zero_tail(inputs[2], op, "gradient");
    return {Tail::kZero, Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{2, 0} : std::vector<int>{};
  }
  int into_input(const OpView&, int output) const override { return output == 1 ? 3 : -1; }
  int accumulate_flag_input() const override { return 4; }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId sum = emit(graph, bias_add_op(), {op.inputs[0], op.inputs[1]});
    const ValueId d_h = emit(graph, gelu_bwd_op(), {sum, op.inputs[2]});
    return {d_h, emit(graph, bias_grad_op(), {d_h, op.inputs[3], op.inputs[4]})};
  }
};

}  // namespace

const OpSchema& bias_gelu_op() {
  static const BiasGelu op;
  return op;
}
const OpSchema& bias_gelu_bwd_op() {
  static const BiasGeluBwd op;
  return op;
}

}  // namespace plimsoll
