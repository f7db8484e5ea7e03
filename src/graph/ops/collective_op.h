// The base class of the ops that exchange lists of values between ranks. They run on the queue of communication.
// Thread-safe: values only.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "graph/ir/rank_slices.h"
#include "graph/ops/op.h"

namespace plimsoll {

// A value of the attribute "block" (slice sizes are multiples of it) that is above the size of any tensor: the first rank's slice is the
// whole tensor, and the other slices are empty. It is used with --data_parallel_mode dp, where one rank updates all weights.
inline constexpr int64_t kAllOnFirstRank = int64_t{1} << 40;

// Returns how many bytes the busiest rank sends or receives when the ranks exchange their slices of a value, as a multiple of the bytes of
// the value. In a ring, each rank sends every slice but one. If the first rank has the whole value, that rank receives or sends the value
// once per other rank.
inline double exchanged_share(const RankSlices& slices) {
  const auto ranks = static_cast<double>(slices.ranks);
  return slices.block >= kAllOnFirstRank ? ranks - 1 : (ranks - 1) / ranks;
}

class CollectiveOp : public OpSchema {
 public:
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kCommunication; }
  OpWork work() const override { return OpWork::kCollective; }
  int writes_into(const OpView&, int output) const override { return output; }
  Queue queue(const OpView&) const override { return Queue::kCommunication; }
  std::vector<Tail> tail(const OpView&, std::span<const Tail> inputs) const override {
    return {inputs.begin(), inputs.end()};
  }

 protected:
  // Returns the types of the results of an op that sums its operands over the ranks; they equal the types of the operands. Errors:
  // kInternal if the operands have different element types.
  static std::vector<ValueType> types_of_sums(const OpView& op) {
    std::vector<ValueType> types;
    for (int i = 0; i < op.num_inputs(); ++i) {
      const ValueType& type = op.input(i).type;
      expect_operands(type.dtype == op.input(0).type.dtype, op, "inputs of one element type");
      types.push_back(type);
    }
    return types;
  }
  // Returns the number of elements of all operands.
  static double elements_of(const OpView& op, const Bucket& bucket) {
    double sum = 0;
    for (int i = 0; i < op.num_inputs(); ++i) sum += static_cast<double>(op.in_shape(i).elements(bucket));
    return sum;
  }

 private:
  static constexpr std::array kInputs{InputOperand::repeated(0, "x")};
  static constexpr std::array kOutputs{OutputOperand::repeated(0, "y")};
};

}  // namespace plimsoll
