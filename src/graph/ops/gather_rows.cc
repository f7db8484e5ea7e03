// gather_rows(x) {ranks, axis="tensor", sums_gradient, peers?}: y_TC, whose r-th of {ranks} equal parts of rows is x of rank r of a
// tensor-parallel group. The rows of x are T / ranks. Every rank gets the same bits. It runs on Queue::kCommunication (op.h), as all_reduce
// does. Source: the operator g of Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198,
// section 4.2.2.
//
// Gradient: with {sums_gradient=1} each rank computes a different function of y, for example the product with its part of a weight. The
// gradient is then the sum of d_y over the ranks: d_x = own_rows(reduce_scatter(d_y)). With {sums_gradient=0} every rank computes the same
// function of y, so that d_y is already the gradient of the common loss: d_x = own_rows(d_y).
//
// The backward pass gathers x again instead of keeping y, because y has {ranks} times as many bytes as x.
#include <array>

#include "graph/ops/collective_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

class GatherRows final : public CollectiveOp, private GatherRowsOp {
 public:
  std::string_view name() const override { return "gather_rows"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const ValueType& x = op.input(kX).type;
    expect_operands(x.shape.rank() == 2 && x.shape.has_token_rows() &&
                        x.shape.row_ranks() == op.attributes().integer("ranks") &&
                        op.attributes().integer("block") == 1,
                    op, "x[T/ranks,C], and an attribute 'block' of 1");
    return {{x.dtype, x.shape.with_rows(x.shape[0].whole())}};
  }
  int writes_into(const OpView&, int) const override { return -1; }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return exchanged_share(*rank_slices_of(op.attributes())) *
           static_cast<double>(op.output(kY).bytes(bucket));
  }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    const Attributes& attributes = context.op().attributes;
    const int64_t ranks = attributes.integer("ranks");
    const bool sums = attributes.integer("sums_gradient") != 0;
    context.set(kX, sums ? emit_scatter_rows(context.graph(), d_y, ranks)
                         : emit_own_rows(context.graph(), d_y, ranks));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& gather_rows_op() {
  static const GatherRows op;
  return op;
}

Attributes attributes_of_row_slices(int64_t ranks) {
  Attributes attributes;
  set_rank_slices(attributes, {.ranks = ranks, .block = 1});
  set_mesh_axis(attributes, MeshAxis::kTensor);
  return attributes;
}

Attributes gather_rows_attributes(int64_t ranks, RowGradient gradient) {
  Attributes attributes = attributes_of_row_slices(ranks);
  attributes.set("sums_gradient", int64_t{gradient == RowGradient::kPart});
  return attributes;
}

}  // namespace plimsoll
