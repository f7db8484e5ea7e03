// scale_shift(n, gain, bias): y_TC = n gain_C + bias_C, the affine half of a layer norm.
//
// scale_shift_bwd(n, gain, d_y, into_gain?, into_bias?, flag?): d_n = d_y gain; d_gain = column sums of d_y n; d_bias
// = column sums of d_y. Tail rows of d_y must be zero.
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
                        op.in_shape(kGain) == op.in_shape(kBias),
                    op, "n[T,C], gain[C], bias[C]");
    return {op.input(kN).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kN}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const Op& op = context.op();
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue) return;
    const Graph& graph = context.graph();
    const std::array<std::string, 3> names{"d_normalized", "d_" + graph.value(op.inputs[kGain]).name,
                                           "d_" + graph.value(op.inputs[kBias]).name};
    const auto out =
        emit_all(context.graph(), scale_shift_bwd_op(),
                 {op.inputs[kN], op.inputs[kGain], d_y, kNoValue, kNoValue, kNoValue}, {}, names);
    for (int i = 0; i < 3; ++i) {
      if (context.wants(i)) context.set(i, out[static_cast<size_t>(i)]);
    }
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kN, "n"), InputOperand::required(kGain, "gain"),
                                      InputOperand::required(kBias, "bias")};
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
    return {op.input(kDY).type, sum_type(op.input(kGain).type), sum_type(op.input(kGain).type)};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 4.0 * static_cast<double>(op.out_shape(kDN).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    if (!op.out_shape(kDN).has_token_rows()) return {Tail::kNone, Tail::kNone, Tail::kNone};
    expect_zero_tail(inputs[kDY], op, "gradient");
    return {Tail::kZero, Tail::kNone, Tail::kNone};
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
                                       OutputOperand::required(kDBias, "d_bias")};
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
