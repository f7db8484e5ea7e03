// sort_ids(cu_seqlens, ids_0, ids_1, ...) {rows}: for each ids_k its (id, token) pairs sorted_k_T2, sorted by id, and
// by token for equal ids. Tokens at and after cu_seqlens[B] come last, with an id that no table has. Every id is below {rows}. If several
// ops compute the gradient of a table, each for some of its rows, all of them read the same sorted ids.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class SortIds final : public OpSchema, private SortIdsOp {
 public:
  std::string_view name() const override { return "sort_ids"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const Dim& rows = op.in_shape(kIds)[0];
    for (int i = 1; i < op.num_inputs(); ++i) {
      expect_operands(op.input(i).type == ValueType{DType::kI32, Shape{rows}} && rows.whole() == kDimT, op,
                      "ids i32[T]");
    }
    return std::vector<ValueType>(static_cast<size_t>(op.num_inputs() - 1), {DType::kI32, Shape{rows, 2}});
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return std::vector<Tail>(static_cast<size_t>(op.num_inputs() - 1), Tail::kFinite);
  }

 private:
  static constexpr std::array kInputs{InputOperand::sequence_offsets(kCuSeqlens),
                                      InputOperand::repeated(kIds, "ids")};
  static constexpr std::array kOutputs{OutputOperand::repeated(kSorted, "sorted")};
};

}  // namespace

const OpSchema& sort_ids_op() {
  static const SortIds op;
  return op;
}

}  // namespace plimsoll
