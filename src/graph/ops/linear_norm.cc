// linear_norm(x_TK, w_NK, bias_N, residual_TN, gain_N, beta_N?) {eps}: s = x w^T + bias + residual; n, rstd =
// normalize(s); y_TN = n gain + beta: a linear layer, the addition of the residual, and the norm of the sum. Only for programs without
// gradients: the values between the matrix product and the norm are not written.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LinearNorm final : public OpSchema, private LinearNormOp {
 public:
  std::string_view name() const override { return "linear_norm"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const bool ranks = op.in_shape(kX).rank() == 2 && op.in_shape(kW).rank() == 2;
    expect_operands(ranks && op.in_shape(kX)[1] == op.in_shape(kW)[1], op,
                    "x[T,K], w[N,K], bias, residual, gain, beta");
    const ValueType type{op.input(kX).type.dtype, Shape{op.in_shape(kX)[0], op.in_shape(kW)[0]}};
    const Shape columns{op.in_shape(kW)[0]};
    expect_operands(op.in_shape(kBias) == columns && op.in_shape(kGain) == columns &&
                        (!op.has_input(kBeta) || op.in_shape(kBeta) == columns),
                    op, "bias[N], gain[N], beta[N]");
    expect_operands(op.input(kResidual).type == type, op, "a residual[T,N] of the type of x");
    return {type};
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto outputs = static_cast<double>(op.out_shape(kY).elements(bucket));
    return outputs * (2.0 * static_cast<double>(op.in_shape(kX)[1].at(bucket)) + 13.0);
  }

  bool works_row_by_row(const OpView& op) const override { return !op.in_shape(kW).depends_on_bucket(); }

  std::vector<int> may_overwrite(const OpView&, int) const override { return {kResidual}; }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId product =
        emit_matmul(graph, op.inputs[kX], MatmulTranspose::kNo, op.inputs[kW], MatmulTranspose::kYes);
    const auto outputs = emit_all(
        graph, bias_dropout_residual_norm_op(),
        {product, op.inputs[kBias], op.inputs[kResidual], op.inputs[kGain], op.inputs[kBeta], kNoValue},
        {{"eps", op.attributes.number("eps")}, {"p", 0.0}});
    return {outputs[kY]};
  }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kX, "x"),       InputOperand::required(kW, "w"),
      InputOperand::required(kBias, "bias"), InputOperand::required(kResidual, "residual"),
      InputOperand::required(kGain, "gain"), InputOperand::optional(kBeta, "beta")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& linear_norm_op() {
  static const LinearNorm op;
  return op;
}

}  // namespace plimsoll
