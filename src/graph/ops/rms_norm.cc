// rms_norm(x_TN, gain_C, second_gain_C?, residual_TN?) {eps, heads, second_heads}: divides each of the first {heads} vectors of C elements
// of a row by its root mean square and multiplies it by gain (Zhang and Sennrich, arXiv 1910.07467); the next {second_heads} vectors have
// second_gain, and the elements after them are copied. A norm of whole rows has one vector of C = N elements. rstd_T(H) keeps the inverse
// of each root for the backward pass. With a residual, the op normalizes s = x + residual, and s_TN is the third output, which later ops
// read: in a pre-norm model, s is the residual stream, to which the next sub-layer adds its result. With {tensor_ranks}, each rank of a
// tensor-parallel group has some of the vectors, and the gradients of the gains are sums over the ranks.
//
// rms_norm_bwd(d_y, x, gain, second_gain?, rstd, into_gain?, into_second?, flag?, d_sum_term?): x is s if there is a residual; d_sum_term
// is the gradient of s that comes from its other readers; kernels/layer_norm/rms_norm.h has the formulas. Tail rows of d_y (rows after the
// last token) must be zero.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

int64_t num_vectors(const Attributes& attributes) {
  return attributes.integer("heads") + attributes.integer("second_heads");
}

class RmsNorm final : public OpSchema, private RmsNormOp {
 public:
  std::string_view name() const override { return "rms_norm"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const bool has_second = op.attributes().integer("second_heads") > 0;
    expect_operands(
        op.in_shape(kX).rank() == 2 && op.in_shape(kGain).rank() == 1 &&
            num_vectors(op.attributes()) * op.in_shape(kGain)[0].offset <= op.in_shape(kX)[1].offset,
        op, "x[T,N] and gain[C], with at most N / C vectors of C elements per row");
    expect_operands(has_second == op.has_input(kSecondGain) &&
                        (!has_second || op.input(kSecondGain).type == op.input(kGain).type),
                    op, "second_gain[C] if and only if the attribute second_heads is above 0");
    const ValueType& x = op.input(kX).type;
    std::vector<ValueType> types{x, {sum_dtype(x.dtype), Shape{x.shape[0], num_vectors(op.attributes())}}};
    if (op.has_input(kResidual)) {
      expect_operands(op.input(kResidual).type == x && op.in_shape(kGain)[0] == x.shape[1], op,
                      "residual[T,N], and a gain[N] that covers whole rows");
      types.push_back(x);
    }
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 4.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    const bool has_sum = op.has_input(kResidual);
    if (!op.out_shape(kY).has_token_rows()) return std::vector<Tail>(has_sum ? 3 : 2, Tail::kNone);
    if (!has_sum) return {inputs[kX], Tail::kFinite};
    const bool zero = inputs[kX] == Tail::kZero && inputs[kResidual] == Tail::kZero;
    const Tail of_sum = zero ? Tail::kZero : Tail::kFinite;
    return {of_sum, Tail::kFinite, of_sum};
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    if (output == kY) return {kX, kResidual};
    return output == kSum ? std::vector<int>{kResidual, kX} : std::vector<int>{};
  }
  std::optional<Recipe> recipe(const OpView& op, int output) const override {
    if (!op.has_input(kResidual)) return same_op(op, output);
    if (output == kSum) return std::nullopt;
    return Recipe{&rms_norm_op(),
                  {op.op.outputs[kSum], op.op.inputs[kGain], op.op.inputs[kSecondGain], kNoValue},
                  op.attributes(),
                  output};
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    const Op& op = context.op();
    const bool has_sum = op.inputs[kResidual] != kNoValue;
    const ValueId d_sum_term = has_sum ? context.d_output(kSum) : kNoValue;
    PLIMSOLL_CHECK(d_y != kNoValue || d_sum_term == kNoValue,
                   "cannot differentiate rms_norm: its output sum has a gradient, but its output y has none");
    if (d_y == kNoValue) return;
    const Graph& graph = context.graph();
    const ValueId second = op.inputs[kSecondGain];
    std::vector<std::string> names{"d_" + graph.value(op.inputs[kX]).name,
                                   "d_" + graph.value(op.inputs[kGain]).name};
    if (second != kNoValue) names.push_back("d_" + graph.value(second).name);
    const auto out = emit_all(context.graph(), rms_norm_bwd_op(),
                              {d_y, has_sum ? op.outputs[kSum] : op.inputs[kX], op.inputs[kGain], second,
                               op.outputs[kRstd], kNoValue, kNoValue, kNoValue, d_sum_term},
                              op.attributes, names);
    if (has_sum && context.wants(kResidual)) context.set(kResidual, out[kX]);
    const int64_t tensor_ranks = op.attributes.integer_or(kTensorRanks, 1);
    for (int i = 0; i < static_cast<int>(out.size()); ++i) {
      const ValueId d_input = out[static_cast<size_t>(i)];
      if (!context.wants(i)) continue;
      const bool is_sum = i != kX && tensor_ranks > 1;
      context.set(i, is_sum ? emit_tensor_sum(context.graph(), d_input, tensor_ranks) : d_input);
    }
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kGain, "gain"),
                                      InputOperand::optional(kSecondGain, "second_gain"),
                                      InputOperand::optional(kResidual, "residual")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y"),
                                       OutputOperand::required(kRstd, "rstd").without_memory(),
                                       OutputOperand::conditional(kSum, "s")};
};

// Backward op of rms_norm. Its outputs are the gradients of the inputs of rms_norm, in the order of these inputs.
class RmsNormBwd final : public OpSchema, private RmsNormBwdOp {
 public:
  std::string_view name() const override { return "rms_norm_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kDY) == op.in_shape(kX), op,
                    "d_y[T,N], x[T,N], gain[C], second_gain, rstd, into_gain, into_second, flag, d_sum_term");
    expect_operands(!op.has_input(kDSumTerm) || op.input(kDSumTerm).type == op.input(kDY).type, op,
                    "d_sum_term[T,N]");
    std::vector<ValueType> types{op.input(kDY).type, sum_type(op.input(kGain).type)};
    if (op.has_input(kSecondGain)) types.push_back(sum_type(op.input(kSecondGain).type));
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 11.0 * static_cast<double>(op.out_shape(kDX).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    std::vector<Tail> states(static_cast<size_t>(op.num_outputs()), Tail::kNone);
    if (!op.out_shape(kDX).has_token_rows()) return states;
    expect_zero_tail(inputs[kDY], op, "gradient");
    if (op.has_input(kDSumTerm)) expect_zero_tail(inputs[kDSumTerm], op, "gradient of the sum");
    states[kDX] = Tail::kZero;
    return states;
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == kDX ? std::vector<int>{kDY, kX, kDSumTerm} : std::vector<int>{};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kDY, "d_y"),
                                      InputOperand::required(kX, "x"),
                                      InputOperand::required(kGain, "gain"),
                                      InputOperand::optional(kSecondGain, "second_gain"),
                                      InputOperand::required(kRstd, "rstd"),
                                      InputOperand::into(kIntoGain, "into_gain", kDGain),
                                      InputOperand::into(kIntoSecond, "into_second", kDSecond),
                                      InputOperand::accumulate_flag(kFlag),
                                      InputOperand::optional(kDSumTerm, "d_sum_term")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x"),
                                       OutputOperand::required(kDGain, "d_gain"),
                                       OutputOperand::conditional(kDSecond, "d_second_gain")};
};

}  // namespace

const OpSchema& rms_norm_op() {
  static const RmsNorm op;
  return op;
}
const OpSchema& rms_norm_bwd_op() {
  static const RmsNormBwd op;
  return op;
}

}  // namespace plimsoll
