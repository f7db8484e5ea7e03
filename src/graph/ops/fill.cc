// fill(like) {value}: a value of the type of `like` whose elements are all `value`; the seed of the backward
// pass.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Fill final : public OpSchema {
 public:
  std::string_view name() const override { return "fill"; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 1, op, "like");
    return {op.input(0).type};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
};

}  // namespace

const OpSchema& fill_op() {
  static const Fill op;
  return op;
}

}  // namespace plimsoll
