// linear_gelu(x_TK, w_NK, bias_N): y_TN = gelu(x w^T + bias), erf form: a linear layer and its activation, if no
// other op reads the sum before the activation. Only for programs without gradients, because a gradient would need
// that sum. The matrix product may be rounded to the type of x before the bias is added, as matmul and bias_gelu do.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LinearGelu final : public OpSchema, private LinearGeluOp {
 public:
  std::string_view name() const override { return "linear_gelu"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const bool ranks =
        op.in_shape(kX).rank() == 2 && op.in_shape(kW).rank() == 2 && op.in_shape(kBias).rank() == 1;
    expect_operands(
        ranks && op.in_shape(kX)[1] == op.in_shape(kW)[1] && op.in_shape(kW)[0] == op.in_shape(kBias)[0], op,
        "x[T,K], w[N,K], bias[N]");
    return {{op.input(kX).type.dtype, Shape{op.in_shape(kX)[0], op.in_shape(kW)[0]}}};
  }

  // Counts the operations of the matrix product, and 11 per element for bias and activation, like bias_gelu.
  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto outputs = static_cast<double>(op.out_shape(kY).elements(bucket));
    return outputs * (2.0 * static_cast<double>(op.in_shape(kX)[1].at(bucket)) + 11.0);
  }

  bool works_row_by_row(const OpView& op) const override { return !op.in_shape(kW).depends_on_bucket(); }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId product =
        emit_matmul(graph, op.inputs[kX], MatmulTranspose::kNo, op.inputs[kW], MatmulTranspose::kYes);
    return {emit(graph, bias_gelu_op(), {product, op.inputs[kBias]})};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kW, "w"),
                                      InputOperand::required(kBias, "bias")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& linear_gelu_op() {
  static const LinearGelu op;
  return op;
}

}  // namespace plimsoll
