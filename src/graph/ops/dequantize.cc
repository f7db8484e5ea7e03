#include "graph/ops/dequantize.h"

namespace plimsoll {
namespace {

class Dequantize final : public OpSchema {
 public:
  std::string_view name() const override { return "dequantize"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 4 && op.input(0).type.dtype == DType::kU8, op,
                    "codes u8, scales, second_scales, offsets");
    return {{stated_dtype(op, DType::kF32),
             Shape{op.attributes().integer("rows"), op.attributes().integer("columns")}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kNone}; }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
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
