// bias_gelu(h, b): y_TF = f(h + b), which fuses bias_add and gelu; f is GELU (erf form) or the activation that the attribute names.
// bias_gelu_bwd(h, b, d_y, into?, flag?): d_h = d_y f'(h + b); d_b = column sums of d_h. The tail rows of d_h (rows after the last token)
// must be zero for these sums.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class BiasGelu final : public OpSchema, private BiasGeluOp {
 public:
  std::string_view name() const override { return "bias_gelu"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kH).rank() == 2 && op.in_shape(kBias).rank() == 1 &&
                        op.in_shape(kH)[1] == op.in_shape(kBias)[0],
                    op, "h[T,F], b[F]");
    return {op.input(kH).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 11.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kH}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue) return;
    const std::array<std::string, 2> names{"d_" + context.graph().value(op.inputs[kH]).name,
                                           "d_" + context.graph().value(op.inputs[kBias]).name};
    const auto out =
        emit_all(context.graph(), bias_gelu_bwd_op(),
                 {op.inputs[kH], op.inputs[kBias], d_y, kNoValue, kNoValue}, op.attributes, names);
    if (context.wants(kH)) context.set(kH, out[0]);
    if (context.wants(kBias)) context.set(kBias, out[1]);
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    return {emit(graph, gelu_op(), {emit(graph, bias_add_op(), {op.inputs[kH], op.inputs[kBias]})},
                 op.attributes)};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kH, "h"), InputOperand::required(kBias, "bias")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class BiasGeluBwd final : public OpSchema, private BiasGeluBwdOp {
 public:
  std::string_view name() const override { return "bias_gelu_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kH) == op.in_shape(kDY), op, "h[T,F], b[F], d_y[T,F], into, flag");
    return {op.input(kDY).type, sum_type(op.input(kBias).type)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 16.0 * static_cast<double>(op.out_shape(kDH).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(kDH).has_token_rows()) return {Tail::kNone, Tail::kNone};
    expect_zero_tail(inputs[kDY], op, "gradient");
    return {Tail::kZero, Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{kDY, kH} : std::vector<int>{};
  }
  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId sum = emit(graph, bias_add_op(), {op.inputs[kH], op.inputs[kBias]});
    const ValueId d_h = emit(graph, gelu_bwd_op(), {sum, op.inputs[kDY]}, op.attributes);
    return {d_h, emit(graph, bias_grad_op(), {d_h, op.inputs[kIntoBias], op.inputs[kFlag]})};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kH, "h"), InputOperand::required(kBias, "bias"),
                                      InputOperand::required(kDY, "d_y"),
                                      InputOperand::into(kIntoBias, "into_bias", kDBias),
                                      InputOperand::accumulate_flag(kFlag)};
  static constexpr std::array kOutputs{OutputOperand::required(kDH, "d_h"),
                                       OutputOperand::required(kDBias, "d_bias")};
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
