// linear_add(x_TK, w_NK, residual_TN): y_TN = x w^T + residual: a linear layer whose output is added to a residual
// and rounded once. Only for programs without gradients. The norm after it reads this sum, instead of adding the residual itself.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LinearAdd final : public OpSchema, private LinearAddOp {
 public:
  std::string_view name() const override { return "linear_add"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const bool ranks = op.in_shape(kX).rank() == 2 && op.in_shape(kW).rank() == 2;
    expect_operands(ranks && op.in_shape(kX)[1] == op.in_shape(kW)[1], op, "x[T,K], w[N,K], residual[T,N]");
    const ValueType type{op.input(kX).type.dtype, Shape{op.in_shape(kX)[0], op.in_shape(kW)[0]}};
    expect_operands(op.input(kResidual).type == type, op, "a residual[T,N] of the type of x");
    return {type};
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto outputs = static_cast<double>(op.out_shape(kY).elements(bucket));
    return outputs * (2.0 * static_cast<double>(op.in_shape(kX)[1].at(bucket)) + 1.0);
  }

  bool works_row_by_row(const OpView& op) const override { return !op.in_shape(kW).depends_on_bucket(); }

  std::vector<int> may_overwrite(const OpView&, int) const override { return {kResidual}; }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId product =
        emit_matmul(graph, op.inputs[kX], MatmulTranspose::kNo, op.inputs[kW], MatmulTranspose::kYes);
    return {emit(graph, add_op(), {op.inputs[kResidual], product})};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"), InputOperand::required(kW, "w"),
                                      InputOperand::required(kResidual, "residual")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& linear_add_op() {
  static const LinearAdd op;
  return op;
}

}  // namespace plimsoll
