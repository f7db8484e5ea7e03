#include <array>

#include "graph/ops/dequantize.h"

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Dequantize final : public OpSchema, private DequantizeOp {
 public:
  std::string_view name() const override { return "dequantize"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.input(kCodes).type.dtype == DType::kU8, op,
                    "codes u8, scales, second_scales, offsets");
    return {{stated_dtype(op, DType::kF32),
             Shape{op.attributes().integer("rows"), op.attributes().integer("columns")}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kWeight).elements(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kNone}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kCodes, "codes"), InputOperand::required(kScales, "scales"),
      InputOperand::optional(kSecondScales, "second_scales"), InputOperand::optional(kOffsets, "offsets")};
  static constexpr std::array kOutputs{OutputOperand::required(kWeight, "weight")};
};

}  // namespace

const OpSchema& dequantize_op() {
  static const Dequantize op;
  return op;
}

std::string scales_name(const std::string& weight) {
  return weight + ".scales";
}
std::string second_scales_name(const std::string& weight) {
  return weight + ".second_scales";
}
std::string offsets_name(const std::string& weight) {
  return weight + ".offsets";
}

}  // namespace plimsoll
