// reduce_scatter(x_0 .. x_n-1) {ranks}: the slice of this rank (RankSlices) of y_i = that of the sum of x_i over all ranks of the
// run, in the bytes of x_i. The other numbers of y_i are undefined. All operands have one type of element. It runs on the
// queue of communication, as all_reduce does.
#include <array>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

namespace {

class ReduceScatter final : public OpSchema, private RankSlicesOp {
 public:
  std::string_view name() const override { return "reduce_scatter"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kCommunication; }
  OpWork work() const override { return OpWork::kCollective; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    expect_operands(op.num_inputs() >= 1 && slices && slices->ranks >= 1, op,
                    "at least one value, and at least one rank as {ranks}");
    std::vector<ValueType> types;
    for (int i = 0; i < op.num_inputs(); ++i) {
      const ValueType& type = op.input(i).type;
      expect_operands(type.dtype == op.input(0).type.dtype, op, "values of one type of element");
      types.push_back(type);
    }
    return types;
  }
  int writes_into(const OpView&, int output) const override { return output; }
  Queue queue(const OpView&) const override { return Queue::kCommunication; }
  // Each rank adds the numbers of the other ranks to its slice.
  double flops(const OpView& op, const Bucket& bucket) const override { return moved(op, bucket); }
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return moved(op, bucket) * static_cast<double>(dtype_bytes(op.input(0).type.dtype));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail> inputs) const override {
    return {inputs.begin(), inputs.end()};
  }

 private:
  static constexpr std::array kInputs{InputOperand::repeated(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::repeated(kY, "y")};

  // Returns the number of elements that a rank sends: every slice but its own.
  static double moved(const OpView& op, const Bucket& bucket) {
    const auto ranks = static_cast<double>(rank_slices_of(op.attributes())->ranks);
    double sum = 0;
    for (int i = 0; i < op.num_inputs(); ++i) sum += static_cast<double>(op.in_shape(i).elements(bucket));
    return (ranks - 1) / ranks * sum;
  }
};

}  // namespace

const OpSchema& reduce_scatter_op() {
  static const ReduceScatter op;
  return op;
}

}  // namespace plimsoll
