// norm_linear(x_TK, w_NK, bias_N?, residual_TK?, norm_bias_K?, gain_K, beta_K?) {eps, norm, end, activation}: s = x + norm_bias + residual;
// h = norm(s); z = h w^T + bias; y = z, f(z) or f(z[:, :F]) z[:, F:], depending on {end}. This is the beginning of a sub-layer of a
// pre-norm model, in one op. Outputs y_TN or, for a gated unit, y_T(N/2), and s_TK if there is a residual. {norm} and {end} are names of
// base/fused_layer.h, and {activation} names f as in ops/activation_op.h. Only for programs without gradients: h and z are not written.
#include <array>

#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class NormLinear final : public OpSchema, private NormLinearOp {
 public:
  std::string_view name() const override { return "norm_linear"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const bool ranks = op.in_shape(kX).rank() == 2 && op.in_shape(kW).rank() == 2;
    expect_operands(ranks && op.in_shape(kX)[1] == op.in_shape(kW)[1], op, "x[T,K], w[N,K]");
    const Shape terms{op.in_shape(kX)[1]};
    expect_operands(op.in_shape(kGain) == terms && (!op.has_input(kBeta) || op.in_shape(kBeta) == terms), op,
                    "gain[K], beta[K]");
    expect_operands(!op.has_input(kResidual) || op.input(kResidual).type == op.input(kX).type, op,
                    "residual[T,K] of the type of x");
    expect_operands(!op.has_input(kNormBias) || (op.has_input(kResidual) && op.in_shape(kNormBias) == terms),
                    op, "norm_bias[K] with a residual");
    expect_operands(!op.has_input(kBias) || op.in_shape(kBias) == Shape{op.in_shape(kW)[0]}, op, "bias[N]");
    Dim columns = op.in_shape(kW)[0];
    if (end(op.attributes()) == LayerEnd::kGlu) {
      expect_operands(columns.offset % 2 == 0, op, "w[2F,K] for a gated activation");
      columns.offset /= 2;
    }
    std::vector<ValueType> types{{op.input(kX).type.dtype, Shape{op.in_shape(kX)[0], columns}}};
    if (op.has_input(kResidual)) types.push_back(op.input(kX).type);
    return types;
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto terms = static_cast<double>(op.in_shape(kX).elements(bucket));
    const double products = 2.0 * terms * static_cast<double>(op.in_shape(kW)[0].at(bucket));
    const double of_function = end(op.attributes()) == LayerEnd::kProduct ? 0.0 : 11.0;
    return products + 13.0 * terms + of_function * static_cast<double>(op.out_shape(kY).elements(bucket));
  }

  bool works_row_by_row(const OpView& op) const override { return !op.in_shape(kW).depends_on_bucket(); }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const bool has_residual = op.inputs[kResidual] != kNoValue;
    ValueId h = kNoValue, sum = kNoValue;
    if (norm(op.attributes) == NormKind::kRms) {
      const auto outputs = emit_all(
          graph, rms_norm_op(), {op.inputs[kX], op.inputs[kGain], kNoValue, op.inputs[kResidual]},
          {{"eps", op.attributes.number("eps")}, {"heads", int64_t{1}}, {"second_heads", int64_t{0}}});
      h = outputs[RmsNormOp::kY];
      if (has_residual) sum = outputs[RmsNormOp::kSum];
    } else {
      Attributes attributes{{"eps", op.attributes.number("eps")}, {"p", 0.0}};
      if (has_residual) attributes.set("sum", int64_t{1});
      const auto outputs = emit_all(graph, bias_dropout_residual_norm_op(),
                                    {op.inputs[kX], op.inputs[kNormBias], op.inputs[kResidual],
                                     op.inputs[kGain], op.inputs[kBeta], kNoValue},
                                    attributes);
      h = outputs[BiasDropoutResidualNormOp::kY];
      if (has_residual) sum = outputs[BiasDropoutResidualNormOp::kSum];
    }
    ValueId y = emit_linear(graph, h, op.inputs[kW], op.inputs[kBias]);
    if (end(op.attributes) != LayerEnd::kProduct) {
      const OpSchema& function = end(op.attributes) == LayerEnd::kGlu ? glu_op() : gelu_op();
      y = emit(graph, function, {y}, activation_attributes(activation_of(op.attributes)));
    }
    return has_residual ? std::vector<ValueId>{y, sum} : std::vector<ValueId>{y};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::required(kW, "w"),
                                      InputOperand::optional(kBias, "bias"),
                                      InputOperand::optional(kResidual, "residual"),
                                      InputOperand::optional(kNormBias, "norm_bias"),
                                      InputOperand::required(kGain, "gain"),
                                      InputOperand::optional(kBeta, "beta")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y"),
                                       OutputOperand::conditional(kSum, "s")};
};

}  // namespace

NormKind NormLinearOp::norm(const Attributes& attributes) {
  const std::optional<NormKind> found = find_norm_kind(attributes.word("norm"));
  PLIMSOLL_CHECK(found, "the attribute 'norm' is '{}', but must be 'layer' or 'rms'",
                 attributes.word("norm"));
  return *found;
}
LayerEnd NormLinearOp::end(const Attributes& attributes) {
  const std::optional<LayerEnd> found = find_layer_end(attributes.word("end"));
  PLIMSOLL_CHECK(found, "the attribute 'end' is '{}', but must be 'product', 'activation' or 'glu'",
                 attributes.word("end"));
  return *found;
}

const OpSchema& norm_linear_op() {
  static const NormLinear op;
  return op;
}

}  // namespace plimsoll
