// linear_norm(x_TK, w_NK, bias_N, residual_TN, gain_N, beta_N) {eps}: s = x w^T + bias + residual; n, rstd =
// normalize(s); y_TN = n gain + beta: a linear layer and the tail of the sub-layer that it closes. Forward
// only, where no gradient is taken; what lies between product and norm is not written.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LinearNorm final : public OpSchema {
 public:
  std::string_view name() const override { return "linear_norm"; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> infer(const OpView& op) const override {
    const bool ranks = op.num_inputs() == 6 && op.in_shape(0).rank() == 2 && op.in_shape(1).rank() == 2;
    expect_operands(ranks && op.in_shape(0)[1] == op.in_shape(1)[1], op,
                    "x[T,K], w[N,K], bias, residual, gain, beta");
    const ValueType type{op.input(0).type.dtype, Shape{op.in_shape(0)[0], op.in_shape(1)[0]}};
    const Shape columns{op.in_shape(1)[0]};
    expect_operands(op.in_shape(2) == columns && op.in_shape(4) == columns && op.in_shape(5) == columns, op,
                    "bias[N], gain[N], beta[N]");
    expect_operands(op.input(3).type == type, op, "a residual[T,N] of the type of x");
    return {type};
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto outputs = static_cast<double>(op.out_shape(0).elements(bucket));
    return outputs * (2.0 * static_cast<double>(op.in_shape(0)[1].at(bucket)) + 13.0);
  }

  bool works_row_by_row(const OpView& op) const override { return !op.in_shape(1).depends_on_bucket(); }

  std::vector<int> may_overwrite(const OpView&, int) const override { return {3}; }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId product =
        emit_matmul(graph, op.inputs[0], MatmulTranspose::kNo, op.inputs[1], MatmulTranspose::kYes);
    const auto outputs = emit_all(graph, bias_dropout_residual_norm_op(),
                                  {product, op.inputs[2], op.inputs[3], op.inputs[4], op.inputs[5], kNoValue},
                                  {{"eps", op.attributes.number("eps")}, {"p", 0.0}});
    return {outputs[0]};
  }
};

}  // namespace

const OpSchema& linear_norm_op() {
  static const LinearNorm op;
  return op;
}

}  // namespace plimsoll
