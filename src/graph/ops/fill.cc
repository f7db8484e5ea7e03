// fill(like) {value}: a value of the type of `like` whose elements are all `value`. It is the seed of the backward
// pass.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Fill final : public OpSchema, private FillOp {
 public:
  std::string_view name() const override { return "fill"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> output_types(const OpView& op) const override { return {op.input(kLike).type}; }
  double flops(const OpView&, const Bucket&) const override { return 0; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLike, "like")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

}  // namespace

const OpSchema& fill_op() {
  static const Fill op;
  return op;
}

}  // namespace plimsoll
