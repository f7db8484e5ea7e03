// bias_dropout_residual_norm(x, bias?, residual?, gain, beta?, rng?) {eps, p, site, sum}: s = residual +
// dropout(x + bias); n, rstd = normalize(s); y = n gain + beta. Outputs y_TC, n_TC, rstd_T and, if {sum}
// is 1, s_TC: the end of a transformer's sub-layer in one op. A model that normalizes after the sum
// (post-norm, BERT) reads only y. A model that normalizes before each sub-layer (pre-norm, GPT-2) also
// reads s, the residual of the next sub-layer; n is then computed from s after s was rounded to its type.
//
// bias_dropout_residual_norm_bwd(d_y, d_y2?, n, rstd, gain, rng?, into_gain?, into_beta?, into_bias?, flag?,
// d_sum_term?) {p, site, bias, residual, beta}: the gradient of y is d_y + d_y2; d_sum_term is the gradient of s that
// comes from the other readers of s. Outputs, in this order:
//  - d_sum_TC, the gradient of s and of the residual: exists if there is a residual or p is 0;
//  - d_x_TC: exists if p > 0, and equals d_sum otherwise;
//  - d_gain_C;
//  - d_beta_C: exists unless {beta} is 0;
//  - d_bias_C: exists if {bias} is 1.
// Tail rows of the gradients (rows after the last token) must be zero.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class BiasDropoutResidualNorm final : public OpSchema, private BiasDropoutResidualNormOp {
 public:
  std::string_view name() const override { return "bias_dropout_residual_norm"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2, op, "x[T,C], bias, residual, gain, beta, rng");
    const Shape columns{op.in_shape(kX)[1]};
    expect_operands(op.in_shape(kGain) == columns && (!op.has_input(kBeta) || op.in_shape(kBeta) == columns),
                    op, "gain[C], beta[C]");
    expect_operands(!op.has_input(kBias) || op.in_shape(kBias) == columns, op, "bias[C]");
    expect_operands(!op.has_input(kResidual) || op.input(kResidual).type == op.input(kX).type, op,
                    "residual[T,C]");
    expect_operands(op.attributes().number("p") == 0.0 || op.has_input(kRng), op,
                    "an rng, because the dropout probability p is above 0");
    expect_operands(!has_sum(op.attributes()) || op.has_input(kResidual), op,
                    "a residual, because the op also outputs the sum s");
    const DType dtype = op.input(kX).type.dtype;
    std::vector<ValueType> types{
        op.input(kX).type,
        op.input(kX).type,
        {dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{op.in_shape(kX)[0]}}};
    if (has_sum(op.attributes())) types.push_back(op.input(kX).type);
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 13.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    if (output == kY) return {kX, kResidual};
    return output == kSum ? std::vector<int>{kResidual, kX} : std::vector<int>{};
  }
  // How outputs can be recomputed in the backward pass: y from n, which is kept, and n and rstd from s, if the op has the output s.
  std::optional<Recipe> recipe(const OpView& op, int output) const override {
    if (output == kY) {
      return Recipe{&scale_shift_op(), {op.op.outputs[kN], op.op.inputs[kGain], op.op.inputs[kBeta]}, {}, 0};
    }
    if (output == kSum || !has_sum(op.attributes())) return std::nullopt;
    return Recipe{&normalize_op(),
                  {op.op.outputs[kSum]},
                  {{"eps", op.attributes().number("eps")}},
                  output == kN ? NormalizeOp::kN : NormalizeOp::kRstd};
  }

  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const auto [d_y, d_y2] = context.d_output_terms(kY);
    const ValueId d_sum_term = has_sum(op.attributes) ? context.d_output(kSum) : kNoValue;
    PLIMSOLL_CHECK(d_y != kNoValue || d_sum_term == kNoValue,
                   "cannot differentiate bias_dropout_residual_norm: its output s has a gradient, but its "
                   "output y has none");
    if (d_y == kNoValue) return;
    const Graph& graph = context.graph();
    const bool bias = op.inputs[kBias] != kNoValue;
    const bool residual = op.inputs[kResidual] != kNoValue;
    const bool beta = op.inputs[kBeta] != kNoValue;
    const double p = op.attributes.number("p");
    std::vector<std::string> names;
    if (residual || p == 0.0) names.push_back("d_sum");
    if (p > 0.0) names.push_back("d_" + graph.value(op.inputs[kX]).name);
    const size_t gain_at = names.size();
    names.push_back("d_" + graph.value(op.inputs[kGain]).name);
    if (beta) names.push_back("d_" + graph.value(op.inputs[kBeta]).name);
    if (bias) names.push_back("d_" + graph.value(op.inputs[kBias]).name);
    Attributes attributes{{"p", p}, {"bias", int64_t{bias}}, {"residual", int64_t{residual}}};
    attributes.set("site", op.attributes.integer_or("site", 0));
    if (!beta) attributes.set("beta", int64_t{0});
    const auto out = emit_all(context.graph(), bias_dropout_residual_norm_bwd_op(),
                              {d_y, d_y2, op.outputs[kN], op.outputs[kRstd], op.inputs[kGain],
                               op.inputs[kRng], kNoValue, kNoValue, kNoValue, kNoValue, d_sum_term},
                              attributes, names);
    if (context.wants(kGain)) context.set(kGain, out[gain_at]);
    if (beta && context.wants(kBeta)) context.set(kBeta, out[gain_at + 1]);
    if (bias && context.wants(kBias)) context.set(kBias, out.back());
    if (residual && context.wants(kResidual)) context.set(kResidual, out[0]);
    if (context.wants(kX)) context.set(kX, out[gain_at - 1]);
  }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    ValueId sum = op.inputs[kX];
    if (op.inputs[kBias] != kNoValue) sum = emit(graph, bias_add_op(), {sum, op.inputs[kBias]});
    const DropoutSpec dropout{op.attributes.number("p"), op.attributes.integer_or("site", 0)};
    sum = emit_dropout(graph, sum, op.inputs[kRng], dropout);
    if (op.inputs[kResidual] != kNoValue) sum = emit(graph, add_op(), {op.inputs[kResidual], sum});
    const auto normalized = emit_all(graph, normalize_op(), {sum}, {{"eps", op.attributes.number("eps")}});
    std::vector<ValueId> outputs{
        emit(graph, scale_shift_op(), {normalized[0], op.inputs[kGain], op.inputs[kBeta]}), normalized[0],
        normalized[1]};
    if (has_sum(op.attributes)) outputs.push_back(sum);
    return outputs;
  }

 private:
  static bool has_sum(const Attributes& attributes) { return attributes.integer_or("sum", 0) != 0; }

  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::optional(kBias, "bias"),
                                      InputOperand::optional(kResidual, "residual"),
                                      InputOperand::required(kGain, "gain"),
                                      InputOperand::optional(kBeta, "beta"),
                                      InputOperand::random_state(kRng, Presence::kOptional)};
  static constexpr std::array kOutputs{
      OutputOperand::required(kY, "y"), OutputOperand::required(kN, "n").without_memory(),
      OutputOperand::required(kRstd, "rstd").without_memory(), OutputOperand::conditional(kSum, "s")};
};

class BiasDropoutResidualNormBwd final : public OpSchema, private BiasDropoutResidualNormBwdOp {
 public:
  std::string_view name() const override { return "bias_dropout_residual_norm_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kDY) == op.in_shape(kN), op,
                    "d_y[T,C], d_y2, n[T,C], rstd[T], gain[C], rng, into_gain, into_beta, into_bias, flag, "
                    "d_sum_term");
    expect_operands(!op.has_input(kDY2) || op.input(kDY2).type == op.input(kDY).type, op, "d_y2[T,C]");
    expect_operands(!op.has_input(kDSumTerm) || op.input(kDSumTerm).type == op.input(kDY).type, op,
                    "d_sum_term[T,C]");
    const bool p = op.attributes().number("p") > 0.0;
    std::vector<ValueType> types;
    if (op.attributes().integer("residual") != 0 || !p) types.push_back(op.input(kDY).type);
    if (p) types.push_back(op.input(kDY).type);
    const int num_sums = 1 + int{has_beta(op)} + int{op.attributes().integer("bias") != 0};
    types.insert(types.end(), static_cast<size_t>(num_sums), sum_type(op.input(kGain).type));
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(kDY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    const bool rows = op.in_shape(kDY).has_token_rows();
    if (rows) {
      expect_zero_tail(inputs[kDY], op, "gradient");
      if (op.has_input(kDY2)) expect_zero_tail(inputs[kDY2], op, "second gradient");
      if (op.has_input(kDSumTerm)) expect_zero_tail(inputs[kDSumTerm], op, "gradient of the sum");
    }
    std::vector<Tail> states(static_cast<size_t>(op.num_outputs()), Tail::kNone);
    for (int i = 0; i < first_sum(op); ++i) states[static_cast<size_t>(i)] = rows ? Tail::kZero : Tail::kNone;
    return states;
  }
  std::vector<int> may_overwrite(const OpView& op, int output) const override {
    if (output >= first_sum(op)) return {};
    // d_sum and d_x overwrite different inputs, so that neither needs additional memory if both exist.
    return output == 0 ? std::vector<int>{kDY, kDSumTerm} : std::vector<int>{kDY2, kDSumTerm};
  }
  int output_row(const OpView& op, int output) const override {
    const int sum = output - first_sum(op);
    if (sum >= 0) return sum == 0 || has_beta(op) ? kDGain + sum : kDBias;
    const bool has_d_sum = op.attributes().integer("residual") != 0 || op.attributes().number("p") == 0.0;
    return output == 0 && has_d_sum ? kDSum : kDX;
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kDY, "d_y"),
                                      InputOperand::optional(kDY2, "d_y2"),
                                      InputOperand::required(kN, "n"),
                                      InputOperand::required(kRstd, "rstd"),
                                      InputOperand::required(kGain, "gain"),
                                      InputOperand::random_state(kRng, Presence::kOptional),
                                      InputOperand::into(kIntoGain, "into_gain", kDGain),
                                      InputOperand::into(kIntoBeta, "into_beta", kDBeta),
                                      InputOperand::into(kIntoBias, "into_bias", kDBias),
                                      InputOperand::accumulate_flag(kFlag),
                                      InputOperand::optional(kDSumTerm, "d_sum_term")};
  static constexpr std::array kOutputs{
      OutputOperand::conditional(kDSum, "d_sum"), OutputOperand::conditional(kDX, "d_x"),
      OutputOperand::required(kDGain, "d_gain"), OutputOperand::conditional(kDBeta, "d_beta"),
      OutputOperand::conditional(kDBias, "d_bias")};

  static bool has_beta(const OpView& op) { return op.attributes().integer_or("beta", 1) != 0; }
  // Returns the number of outputs with one row per token, after which the outputs that are column sums follow.
  static int first_sum(const OpView& op) {
    return (op.attributes().integer("residual") != 0 && op.attributes().number("p") > 0.0) ? 2 : 1;
  }
};

}  // namespace

const OpSchema& bias_dropout_residual_norm_op() {
  static const BiasDropoutResidualNorm op;
  return op;
}
const OpSchema& bias_dropout_residual_norm_bwd_op() {
  static const BiasDropoutResidualNormBwd op;
  return op;
}

}  // namespace plimsoll
