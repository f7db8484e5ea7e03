// all_gather(x_0 .. x_n-1) {ranks, block, axis?, peers?}: y_i consists of all slices of x_i (RankSlices), slice r from rank r of an axis of
// the rank mesh. If x_i is whole on every rank, y_i reuses its bytes; if x_i is divided among the ranks (Value::divided), y_i has bytes of
// its own. Every rank gets the same bits. As in all_reduce, the op runs on the queue of communication, and {peers} states that GPUs map
// each other's memory.
#include "graph/ops/collective_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

namespace {

class AllGather final : public CollectiveOp, private RankSlicesOp {
 public:
  std::string_view name() const override { return "all_gather"; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    expect_operands(op.num_inputs() >= 1 && slices && slices->ranks >= 1 && slices->block >= 1, op,
                    "at least one input, and an attribute 'ranks' of at least 1");
    std::vector<ValueType> types;
    types.reserve(static_cast<size_t>(op.num_inputs()));
    for (int i = 0; i < op.num_inputs(); ++i) {
      expect_operands(!op.input(i).divided || op.input(i).divided == slices, op,
                      "inputs that are whole, or divided among the ranks that the op's attributes name");
      types.push_back(op.input(i).type);
    }
    return types;
  }
  int writes_into(const OpView& op, int output) const override {
    return op.input(output).divided ? -1 : output;
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    double bytes = 0;
    for (int i = 0; i < op.num_inputs(); ++i) {
      const ValueType& type = op.input(i).type;
      bytes += static_cast<double>(type.shape.elements(bucket) * dtype_bytes(type.dtype));
    }
    return exchanged_share(*rank_slices_of(op.attributes())) * bytes;
  }
};

}  // namespace

const OpSchema& all_gather_op() {
  static const AllGather op;
  return op;
}

}  // namespace plimsoll
