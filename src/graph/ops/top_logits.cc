// top_logits(logits_BV) {k}: values f32[B,k], ids i32[B,k], log_sum f64[B], from which a language model's next token is selected
// (kernels/loss/top_logits.h). Rows that the batch does not use have undefined values.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class TopLogits final : public OpSchema, private TopLogitsOp {
 public:
  std::string_view name() const override { return "top_logits"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const Shape& logits = op.in_shape(kLogits);
    expect_operands(logits.rank() == 2, op, "logits[B,V]");
    const int64_t k = op.attributes().integer("k");
    return {{DType::kF32, Shape{logits[0], k}},
            {DType::kI32, Shape{logits[0], k}},
            {DType::kF64, Shape{logits[0]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 8.0 * static_cast<double>(op.in_shape(kLogits).elements(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override {
    return {Tail::kNone, Tail::kNone, Tail::kNone};
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kLogits, "logits")};
  static constexpr std::array kOutputs{OutputOperand::required(kValues, "values"),
                                       OutputOperand::required(kIds, "ids"),
                                       OutputOperand::required(kLogSum, "log_sum")};
};

}  // namespace

const OpSchema& top_logits_op() {
  static const TopLogits op;
  return op;
}

}  // namespace plimsoll
