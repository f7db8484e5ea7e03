// own_rows(x_TC) {ranks, axis="tensor"}: the rows of x that belong to this rank of a tensor-parallel group, T / ranks of them. Rank r has
// the r-th of {ranks} equal parts. After a reduce_scatter these are the only rows of x that are defined.
//
// Gradient: each rank computes the gradient of its own rows, so d_x is gather_rows(d_y).
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

class OwnRows final : public OpSchema, private OwnRowsOp {
 public:
  std::string_view name() const override { return "own_rows"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const ValueType& x = op.input(kX).type;
    expect_operands(x.shape.rank() == 2 && x.shape.has_token_rows() && x.shape.row_ranks() == 1, op,
                    "x[T,C]");
    return {{x.dtype, x.shape.with_rows(x.shape[0].divided(op.attributes().integer("ranks")))}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.output(kY).bytes(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail> inputs) const override { return {inputs[kX]}; }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    Graph& graph = context.graph();
    // kWhole states that every rank computes the same function of d_x, the result of gather_rows. Gradients with respect to d_x are
    // therefore equal on all ranks and need not be summed.
    context.set(kX,
                emit(graph, gather_rows_op(), {d_y},
                     gather_rows_attributes(context.op().attributes.integer("ranks"), RowGradient::kWhole),
                     "d_" + graph.value(context.op().inputs[kX]).name));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& own_rows_op() {
  static const OwnRows op;
  return op;
}

ValueId emit_own_rows(Graph& graph, ValueId x, int64_t ranks) {
  return emit(graph, own_rows_op(), {x}, attributes_of_row_slices(ranks), graph.value(x).name + ".rows");
}

ValueId emit_scatter_rows(Graph& graph, ValueId x, int64_t ranks) {
  const ValueId sum =
      emit(graph, reduce_scatter_op(), {x}, attributes_of_row_slices(ranks), graph.value(x).name + ".sum");
  return emit(graph, own_rows_op(), {sum}, attributes_of_row_slices(ranks), graph.value(x).name + ".rows");
}

}  // namespace plimsoll
