// sort_ids(cu_seqlens, ids_0, ids_1, ...) {rows}: for each ids_k its (id, token) pairs sorted_k_T2, by id and
// within an id by token. Tokens at and after cu_seqlens[B] come last, with an id that no table has. Every id
// is below {rows}. One sort serves all gradients of tables, and where a gradient is computed by rows, each of
// its ops.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class SortIds final : public OpSchema {
 public:
  std::string_view name() const override { return "sort_ids"; }
  OpGroup group() const override { return OpGroup::kDataMovement; }

  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() >= 2, op, "cu_seqlens and ids[T]");
    for (int i = 1; i < op.num_inputs(); ++i) {
      expect_operands(op.input(i).type == ValueType{DType::kI32, Shape{kDimT}}, op, "ids i32[T]");
    }
    return std::vector<ValueType>(static_cast<size_t>(op.num_inputs() - 1), {DType::kI32, Shape{kDimT, 2}});
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail>) const override {
    return std::vector<Tail>(static_cast<size_t>(op.num_inputs() - 1), Tail::kFinite);
  }
};

}  // namespace

const OpSchema& sort_ids_op() {
  static const SortIds op;
  return op;
}

}  // namespace plimsoll
