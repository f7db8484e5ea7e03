// all_reduce(x_0 .. x_n-1) {ranks, peers}: y_i = the sum of x_i over all ranks of the run, in the bytes of x_i. Every rank gets the
// same bits. All operands have one type of element. It runs on the queue of communication: see find_queued_ops()
// (graph/analysis/analysis.h).
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {

namespace {

class AllReduce final : public OpSchema, private AllReduceOp {
 public:
  std::string_view name() const override { return "all_reduce"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kCommunication; }
  OpWork work() const override { return OpWork::kCollective; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.num_inputs() >= 1 && num_ranks(op.attributes()) >= 1, op,
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
  // Each rank adds the parts of the other ranks to one part of its own.
  double flops(const OpView& op, const Bucket& bucket) const override {
    return share(op) * elements(op, bucket);
  }
  // In a ring, which moves the fewest bytes, each rank first sends every part but its own once, to be summed, and then every
  // sum but one (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
  double transferred_bytes(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * share(op) * elements(op, bucket) * static_cast<double>(dtype_bytes(op.input(0).type.dtype));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail> inputs) const override {
    return {inputs.begin(), inputs.end()};
  }

 private:
  static constexpr std::array kInputs{InputOperand::repeated(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::repeated(kY, "y")};

  static double share(const OpView& op) {
    const auto ranks = static_cast<double>(num_ranks(op.attributes()));
    return (ranks - 1) / ranks;
  }
  static double elements(const OpView& op, const Bucket& bucket) {
    double sum = 0;
    for (int i = 0; i < op.num_inputs(); ++i) sum += static_cast<double>(op.in_shape(i).elements(bucket));
    return sum;
  }
};

}  // namespace

const OpSchema& all_reduce_op() {
  static const AllReduce op;
  return op;
}

}  // namespace plimsoll
