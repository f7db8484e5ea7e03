// scale_shift(n, gain, bias?): y_TC = n gain_C + bias_C, the affine half of a layer norm.
//
// scale_shift_bwd(n, gain, d_y, into_gain?, into_bias?, flag?) {bias}: d_n = d_y gain; d_gain = column sums of d_y n; d_bias = column sums
// of d_y, which does not exist if {bias} is 0. Tail rows of d_y (rows after the last token) must be zero.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class ScaleShift final : public OpSchema, private ScaleShiftOp {
 public:
  std::string_view name() const override { return "scale_shift"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kN).rank() == 2 && op.in_shape(kGain).rank() == 1 &&
                        op.in_shape(kN)[1] == op.in_shape(kGain)[0] &&
                        (!op.has_input(kBias) || op.in_shape(kGain) == op.in_shape(kBias)),
                    op, "n[T,C], gain[C], bias[C]");
    return {op.input(kN).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return (op.has_input(kBias) ? 2.0 : 1.0) * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kN}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue) return;
    const Graph& graph = context.graph();
    const bool bias = op.inputs[kBias] != kNoValue;
    std::vector<std::string> names{"d_normalized", "d_" + graph.value(op.inputs[kGain]).name};
    if (bias) names.push_back("d_" + graph.value(op.inputs[kBias]).name);
    Attributes attributes;
    if (!bias) attributes.set("bias", int64_t{0});
    const auto out =
        emit_all(context.graph(), scale_shift_bwd_op(),
                 {op.inputs[kN], op.inputs[kGain], d_y, kNoValue, kNoValue, kNoValue}, attributes, names);
    for (int i = 0; i < static_cast<int>(out.size()); ++i) {
      if (context.wants(i)) context.set(i, out[static_cast<size_t>(i)]);
    }
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kN, "n"), InputOperand::required(kGain, "gain"),
                                      InputOperand::optional(kBias, "bias")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class ScaleShiftBwd final : public OpSchema, private ScaleShiftBwdOp {
 public:
  std::string_view name() const override { return "scale_shift_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kN) == op.in_shape(kDY), op,
                    "n[T,C], gain[C], d_y[T,C], into_gain, into_bias, flag");
    std::vector<ValueType> types{op.input(kDY).type, sum_type(op.input(kGain).type)};
    if (op.attributes().integer_or("bias", 1) != 0) types.push_back(types.back());
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.num_outputs() + 1) *
           static_cast<double>(op.out_shape(kDN).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    std::vector<Tail> states(static_cast<size_t>(op.num_outputs()), Tail::kNone);
    if (!op.out_shape(kDN).has_token_rows()) return states;
    expect_zero_tail(inputs[kDY], op, "gradient");
    states[kDN] = Tail::kZero;
    return states;
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{kDY} : std::vector<int>{};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kN, "n"),
                                      InputOperand::required(kGain, "gain"),
                                      InputOperand::required(kDY, "d_y"),
                                      InputOperand::into(kIntoGain, "into_gain", kDGain),
                                      InputOperand::into(kIntoBias, "into_bias", kDBias),
                                      InputOperand::accumulate_flag(kFlag)};
  static constexpr std::array kOutputs{OutputOperand::required(kDN, "d_n"),
                                       OutputOperand::required(kDGain, "d_gain"),
                                       OutputOperand::conditional(kDBias, "d_bias")};
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
