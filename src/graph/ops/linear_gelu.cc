// linear_gelu(x_TK, w_NK, bias_N): y_TN = gelu(x w^T + bias), erf form: a linear layer and its activation
// where nothing else reads the sum before it. Forward only: a gradient would need that sum. The product may
// be rounded to the type of x before the bias is added to it, as matmul and bias_gelu round it.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class LinearGelu final : public OpSchema {
 public:
  std::string_view name() const override { return "linear_gelu"; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> infer(const OpView& op) const override {
    const bool ranks = op.num_inputs() == 3 && op.in_shape(0).rank() == 2 && op.in_shape(1).rank() == 2 &&
                       op.in_shape(2).rank() == 1;
    expect_operands(ranks && op.in_shape(0)[1] == op.in_shape(1)[1] && op.in_shape(1)[0] == op.in_shape(2)[0],
                    op, "x[T,K], w[N,K], bias[N]");
    return {{op.input(0).type.dtype, Shape{op.in_shape(0)[0], op.in_shape(1)[0]}}};
  }

  // The product's, and 11 an element for bias and activation as bias_gelu counts them.
  double flops(const OpView& op, const Bucket& bucket) const override {
    const auto outputs = static_cast<double>(op.out_shape(0).elements(bucket));
    return outputs * (2.0 * static_cast<double>(op.in_shape(0)[1].at(bucket)) + 11.0);
  }

  bool works_row_by_row(const OpView& op) const override { return !op.in_shape(1).depends_on_bucket(); }

  std::vector<ValueId> decompose(Graph& graph, const Op& op) const override {
    const ValueId product =
        emit_matmul(graph, op.inputs[0], MatmulTranspose::kNo, op.inputs[1], MatmulTranspose::kYes);
    return {emit(graph, bias_gelu_op(), {product, op.inputs[2]})};
  }
};

}  // namespace

const OpSchema& linear_gelu_op() {
  static const LinearGelu op;
  return op;
}

}  // namespace plimsoll
