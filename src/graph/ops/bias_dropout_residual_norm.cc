// bias_dropout_residual_norm(x, bias?, residual?, gain, beta, rng?) {eps, p, site}: s = residual + dropout(x
// + bias); n, rstd = normalize(s); y = n gain + beta. Outputs y_TC, n_TC, rstd_T: the tail of a transformer's
// sub-layer in one pass.
//
// bias_dropout_residual_norm_bwd(d_y, d_y2?, n, rstd, gain, rng?, into_gain?, into_beta?, into_bias?, flag?)
// {p, site, bias, residual}: the gradient of y is d_y + d_y2. Outputs, in this order and where they exist:
// d_sum_TC (the gradient of s and of the residual; absent when there is no residual and p > 0), d_x_TC (when
// p > 0, else d_sum serves), d_gain_C, d_beta_C, d_bias_C (when bias is 1). Gradients must be zero on tail
// rows.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/sum_type.h"

namespace plimsoll {
namespace {

class BiasDropoutResidualNorm final : public OpSchema {
 public:
  std::string_view name() const override { return "bias_dropout_residual_norm"; }
  OpGroup group() const override { return OpGroup::kNormalization; }

  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 6 && op.in_shape(0).rank() == 2, op,
                    "x[T,C], bias, residual, gain, beta, rng");
    const Shape columns{op.in_shape(0)[1]};
    expect_operands(op.in_shape(3) == columns && op.in_shape(4) == columns, op, "gain[C], beta[C]");
    expect_operands(!op.has_input(1) || op.in_shape(1) == columns, op, "bias[C]");
    expect_operands(!op.has_input(2) || op.input(2).type == op.input(0).type, op, "residual[T,C]");
    expect_operands(op.attributes().number("p") == 0.0 || op.has_input(5), op, "rng where p > 0");
    const DType dtype = op.input(0).type.dtype;
    return {op.input(0).type,
            op.input(0).type,
            {dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{op.in_shape(0)[0]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 13.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{0, 2} : std::vector<int>{};
  }
  bool is_optional_output(int output) const override { return output != 0; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override {
    if (output != 0) return std::nullopt;
    return Recipe{&scale_shift_op(), {op.op.outputs[1], op.op.inputs[3], op.op.inputs[4]}, {}, 0};
  }

  void gradient(GradientContext& context) const override {
    const Op op = context.op();
    const auto [d_y, d_y2] = context.d_output_terms(0);
    if (d_y == kNoValue) return;
    const Graph& graph = context.graph();
    const bool bias = op.inputs[1] != kNoValue;
    const bool residual = op.inputs[2] != kNoValue;
    const double p = op.attributes.number("p");
    std::vector<std::string> names;
    if (residual || p == 0.0) names.push_back("d_sum");
    if (p > 0.0) names.push_back("d_" + graph.value(op.inputs[0]).name);
    const size_t gain_at = names.size();
    names.push_back("d_" + graph.value(op.inputs[3]).name);
    names.push_back("d_" + graph.value(op.inputs[4]).name);
    if (bias) names.push_back("d_" + graph.value(op.inputs[1]).name);
    Attributes attributes{{"p", p}, {"bias", int64_t{bias}}, {"residual", int64_t{residual}}};
    attributes.set("site", op.attributes.integer_or("site", 0));
    const auto out = emit_all(context.graph(), bias_dropout_residual_norm_bwd_op(),
                              {d_y, d_y2, op.outputs[1], op.outputs[2], op.inputs[3], op.inputs[5], kNoValue,
                               kNoValue, kNoValue, kNoValue},
                              attributes, names);
    if (context.wants(3)) context.set(3, out[gain_at]);
    if (context.wants(4)) context.set(4, out[gain_at + 1]);
    if (bias && context.wants(1)) context.set(1, out[gain_at + 2]);
    if (residual && context.wants(2)) context.set(2, out[0]);
    if (context.wants(0)) context.set(0, out[gain_at - 1]);
  }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    ValueId sum = op.inputs[0];
    if (op.inputs[1] != kNoValue) sum = emit(graph, bias_add_op(), {sum, op.inputs[1]});
    const DropoutSpec dropout{op.attributes.number("p"), op.attributes.integer_or("site", 0)};
    sum = emit_dropout(graph, sum, op.inputs[5], dropout);
    if (op.inputs[2] != kNoValue) sum = emit(graph, add_op(), {op.inputs[2], sum});
    const auto normalized = emit_all(graph, normalize_op(), {sum}, {{"eps", op.attributes.number("eps")}});
    return {emit(graph, scale_shift_op(), {normalized[0], op.inputs[3], op.inputs[4]}), normalized[0],
            normalized[1]};
  }
};

class BiasDropoutResidualNormBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "bias_dropout_residual_norm_bwd"; }
  OpGroup group() const override { return OpGroup::kNormalization; }

  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 10 && op.in_shape(0) == op.in_shape(2), op,
                    "d_y[T,C], d_y2, n[T,C], rstd[T], gain[C], rng, into_gain, into_beta, into_bias, flag");
    expect_operands(!op.has_input(1) || op.input(1).type == op.input(0).type, op, "d_y2[T,C]");
    const bool p = op.attributes().number("p") > 0.0;
    std::vector<ValueType> types;
    if (op.attributes().integer("residual") != 0 || !p) types.push_back(op.input(0).type);
    if (p) types.push_back(op.input(0).type);
    types.insert(types.end(), op.attributes().integer("bias") != 0 ? 3 : 2, sum_type(op.input(4).type));
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 15.0 * static_cast<double>(op.in_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    const bool rows = op.in_shape(0).has_token_rows();
    if (rows) {
      expect_zero_tail(inputs[0], op, "gradient");
      if (op.has_input(1)) expect_zero_tail(inputs[1], op, "second gradient");
    }
    std::vector<Tail> states(static_cast<size_t>(op.num_outputs()), Tail::kNone);
    for (int i = 0; i < first_sum(op); ++i) states[static_cast<size_t>(i)] = rows ? Tail::kZero : Tail::kNone;
    return states;
  }
  std::vector<int> may_overwrite(const OpView& op, int output) const override {
    if (output >= first_sum(op)) return {};
    // d_x over the second gradient, so that both gradients find a place when both outputs exist.
    return output == 0 ? std::vector<int>{0} : std::vector<int>{1};
  }
  int into_input(const OpView& op, int output) const override {
    const int sum = output - first_sum(op);
    return sum < 0 ? -1 : 6 + sum;
  }
  int accumulate_flag_input() const override { return 9; }

 private:
  // The number of outputs that have rows; the column sums follow.
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
