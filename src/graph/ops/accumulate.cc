// accumulate(into, flag, d): into = flag ? into + d : d, in the bytes of `into`. Used for gradients whose producer
// cannot accumulate.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Accumulate final : public OpSchema, private AccumulateOp {
 public:
  std::string_view name() const override { return "accumulate"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kInto) == op.in_shape(kD), op, "into, flag, d of one shape");
    return {op.input(kInto).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kSum).elements(bucket));
  }

 private:
  static constexpr std::array kInputs{
      InputOperand{.index = kInto, .name = "into", .role = InputRole::kInto, .output = kSum},
      InputOperand{.index = kFlag, .name = "flag", .role = InputRole::kAccumulateFlag},
      InputOperand::required(kD, "d")};
  static constexpr std::array kOutputs{OutputOperand::required(kSum, "sum")};
};

}  // namespace

const OpSchema& accumulate_op() {
  static const Accumulate op;
  return op;
}

}  // namespace plimsoll
