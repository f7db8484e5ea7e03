// quantize_fp8(x, known?, into_q?, into_q_t?, into_scale?, flag?, cu_seqlens?) {format}: x[T,C] as 8-bit floating point with one scale:
// codes q[T,C], the same codes transposed, q_t[C,T], and scale[2], whose first element times a code is the number;
// kernels/quantization/quantize_fp8.h has the formulas. With `known`, the scale of an earlier op for the same x, only the codes are
// computed again. The outputs persist across micro-batches if `into` inputs are given; the op then computes them only if the flag is 0.
// With cu_seqlens, the rows after the last token do not influence the scale, and their codes are 0. The op has no gradient, because a pass
// inserts it after differentiation.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class QuantizeFp8 final : public OpSchema, private QuantizeFp8Op {
 public:
  std::string_view name() const override { return "quantize_fp8"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const auto format = parse_dtype(op.attributes().word("format"));
    const Shape& x = op.in_shape(kX);
    expect_operands(format && is_fp8(*format) && x.rank() == 2 && is_floating(op.input(kX).type.dtype), op,
                    "x[T,C], and the name of an fp8 type as the attribute 'format'");
    return {{*format, x}, {*format, Shape{x[1], x[0]}}, {DType::kF32, Shape{2}}};
  }

  // Per element: a comparison for the largest magnitude, a multiplication and a rounding.
  double flops(const OpView& op, const Bucket& bucket) const override {
    return (op.has_input(kKnown) ? 2.0 : 3.0) * static_cast<double>(op.in_shape(kX).elements(bucket));
  }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    const double once = OpSchema::bytes(op, bucket);
    return op.has_input(kKnown) ? once : once + static_cast<double>(op.input(kX).bytes(bucket));
  }

  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    const Tail of_codes = op.has_input(kCuSeqlens) ? Tail::kZero : inputs[kX];
    return {of_codes, of_codes, Tail::kNone};
  }

  // The codes can be recomputed from x in the backward pass, if x is kept or can be recomputed itself.
  std::optional<Recipe> recipe(const OpView& op, int output) const override {
    if (output == kScale || op.has_input(kKnown) || op.has_input(kFlag)) return std::nullopt;
    Recipe again = same_op(op, output);
    again.inputs[kKnown] = op.op.outputs[kScale];
    return again;
  }

 private:
  static constexpr InputOperand kOptionalSeqlens{.index = kCuSeqlens,
                                                 .name = "cu_seqlens",
                                                 .presence = Presence::kOptional,
                                                 .role = InputRole::kSequenceOffsets};
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::optional(kKnown, "known"),
                                      InputOperand::into(kIntoQ, "into_q", kQ),
                                      InputOperand::into(kIntoQT, "into_q_t", kQT),
                                      InputOperand::into(kIntoScale, "into_scale", kScale),
                                      InputOperand::accumulate_flag(kFlag),
                                      kOptionalSeqlens};
  static constexpr std::array kOutputs{OutputOperand::required(kQ, "q").without_memory(),
                                       OutputOperand::required(kQT, "q_t").without_memory(),
                                       OutputOperand::required(kScale, "scale").without_memory()};
};

}  // namespace

const OpSchema& quantize_fp8_op() {
  static const QuantizeFp8 op;
  return op;
}

}  // namespace plimsoll
