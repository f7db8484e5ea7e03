// accumulate(into, flag, d): into = flag ? into + d : d, in the bytes of `into`; for gradients that their
// producer cannot accumulate itself.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class AccumulateOp final : public OpSchema {
 public:
  std::string_view name() const override { return "accumulate"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 3 && op.in_shape(0) == op.in_shape(2), op,
                    "into, flag, d of one shape");
    return {op.input(0).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(0).elements(bucket));
  }
  int into_input(const OpView&, int) const override { return 0; }
  int accumulate_flag_input() const override { return 1; }
};

}  // namespace

const OpSchema& accumulate_op() {
  static const AccumulateOp op;
  return op;
}

}  // namespace plimsoll
