// all_reduce(x_0 .. x_n-1) {ranks, axis?, peers?}: y_i = the sum of x_i over the ranks of an axis of the mesh (slice.h), in the bytes of
// x_i. Every rank gets the same bits. All operands have the same element type. With {peers}, the GPUs of the ranks map each other's memory
// and exchange data without a communication library. The op runs on the queue of communication, at the same time as later ops: see
// find_queued_ops() (graph/analysis/analysis.h).
//
// Gradient: d_x_i = d_y_i. Every rank computes the same function of y, so d_y is already the gradient of the common loss and needs no sum
// over the ranks. This is the operator g of Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3.
#include "graph/ops/collective_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

namespace {

class AllReduce final : public CollectiveOp, private AllReduceOp {
 public:
  std::string_view name() const override { return "all_reduce"; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.num_inputs() >= 1 && num_ranks(op.attributes()) >= 1, op,
                    "at least one input, and an attribute 'ranks' of at least 1");
    return types_of_sums(op);
  }
  bool works_row_by_row(const OpView&) const override { return true; }
  void gradient(GradientContext& context) const override {
    for (int i = 0; i < static_cast<int>(context.op().inputs.size()); ++i) {
      const ValueId d_y = context.d_output(i);
      if (d_y != kNoValue && context.wants(i)) context.set(i, d_y);
    }
  }
  // Each rank computes the sums for one part of the value: it adds this part of every other rank to its own.
  double flops(const OpView& op, const Bucket& bucket) const override {
    return share(op) * elements_of(op, bucket);
  }
  // A ring transfers the fewest bytes: each rank first sends the elements of every part except its own, to be summed, and then
  // all sums except one part (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * share(op) * elements_of(op, bucket) *
           static_cast<double>(dtype_bytes(op.input(0).type.dtype));
  }

 private:
  static double share(const OpView& op) {
    const auto ranks = static_cast<double>(num_ranks(op.attributes()));
    return (ranks - 1) / ranks;
  }
};

}  // namespace

const OpSchema& all_reduce_op() {
  static const AllReduce op;
  return op;
}

ValueId emit_tensor_sum(Graph& graph, ValueId x, int64_t ranks) {
  Attributes attributes{{"ranks", ranks}};
  set_mesh_axis(attributes, MeshAxis::kTensor);
  return emit(graph, all_reduce_op(), {x}, std::move(attributes), graph.value(x).name + ".sum");
}

}  // namespace plimsoll
