// reduce_scatter(x_0 .. x_n-1) {ranks, block, axis?, peers?}: y_i overwrites x_i. The slice of y_i that belongs to this rank (RankSlices,
// slice.h) contains this slice of the sum of x_i over the ranks of an axis of the mesh. The other elements of y_i are undefined. All
// operands have the same element type. The op runs on Queue::kCommunication (op.h), as all_reduce does.
//
// Gradient: d_x_i = d_y_i. The gradient of own_rows, which is the op that reads y_i, has gathered d_y_i from all ranks.
#include "graph/ops/collective_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

namespace {

class ReduceScatter final : public CollectiveOp, private RankSlicesOp {
 public:
  std::string_view name() const override { return "reduce_scatter"; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    expect_operands(op.num_inputs() >= 1 && slices && slices->ranks >= 1, op,
                    "at least one input, and an attribute 'ranks' of at least 1");
    return types_of_sums(op);
  }
  void gradient(GradientContext& context) const override {
    for (int i = 0; i < static_cast<int>(context.op().inputs.size()); ++i) {
      const ValueId d_y = context.d_output(i);
      if (d_y != kNoValue && context.wants(i)) context.set(i, d_y);
    }
  }
  // Counts one addition for each number that a rank receives: it adds the slices of the other ranks to its own.
  double flops(const OpView& op, const Bucket& bucket) const override { return moved(op, bucket); }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return moved(op, bucket) * static_cast<double>(dtype_bytes(op.input(0).type.dtype));
  }

 private:
  // Returns the number of elements that the rank with the most traffic sends or receives.
  static double moved(const OpView& op, const Bucket& bucket) {
    return exchanged_share(*rank_slices_of(op.attributes())) * elements_of(op, bucket);
  }
};

}  // namespace

const OpSchema& reduce_scatter_op() {
  static const ReduceScatter op;
  return op;
}

}  // namespace plimsoll
