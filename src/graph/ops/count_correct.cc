// count_correct(logits_BK, labels_B): i32[1], the number of rows with a label whose largest logit is that of the label; the
// first of equal logits counts (kernels/loss/count_correct.h). Rows with a negative label are not counted. Rows that the batch does not use
// have such a label.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class CountCorrect final : public OpSchema, private CountCorrectOp {
 public:
  std::string_view name() const override { return "count_correct"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kLogits).rank() == 2 && op.in_shape(kLabels).rank() == 1 &&
                        op.in_shape(kLogits)[0] == op.in_shape(kLabels)[0] &&
                        op.input(kLabels).type.dtype == DType::kI32,
                    op, "logits[B,K], labels i32[B]");
    return {{DType::kI32, Shape{1}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kNone}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLogits, "logits"),
                                      InputOperand::required(kLabels, "labels")};
  static constexpr std::array kOutputs{OutputOperand::required(kCount, "count")};
};

}  // namespace

const OpSchema& count_correct_op() {
  static const CountCorrect op;
  return op;
}

}  // namespace plimsoll
