// scaled_matmul(a, b, bias?, into?, flag?, a_scale, b_scale) {dtype}: c_mn = s_a s_b a_mk b_nk (+ bias_n) (+ into_mn if the flag is 1), for
// the codes a and b of quantize_fp8 and their scales. In both operands the dimension k, over which the products are summed, is the
// innermost one, because tensor cores require this layout for fp8. Sums are kept in fp32 as kernels/matmul/matmul.h states. The op has no
// gradient, because a pass inserts it after differentiation. The rules for tail rows are those of matmul (matmul.cc).
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class ScaledMatmul final : public OpSchema, private ScaledMatmulOp {
 public:
  std::string_view name() const override { return "scaled_matmul"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kContraction; }

  std::vector<ValueType> output_types(const OpView& op) const override {
    const Shape &a = op.in_shape(kA), &b = op.in_shape(kB);
    expect_operands(is_fp8(op.input(kA).type.dtype) && is_fp8(op.input(kB).type.dtype) && a.rank() == 2 &&
                        b.rank() == 2 && a[1] == b[1],
                    op, "fp8 codes a[m,k] and b[n,k]");
    const Shape two{2};
    expect_operands(op.in_shape(kAScale) == two && op.in_shape(kBScale) == two, op,
                    "a 'scales' operand of 2 elements");
    expect_operands(!op.has_input(kBias) || op.in_shape(kBias) == Shape{b[0]}, op, "bias[n]");
    const ValueType type{stated_dtype(op, DType::kF32), Shape{a[0], b[0]}};
    expect_operands(!op.has_input(kInto) || (op.input(kInto).type == type && op.has_input(kFlag)), op,
                    "into[m,n] of the type of c, and a flag");
    return {type};
  }

  double flops(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.out_shape(kC).elements(bucket)) *
           static_cast<double>(op.in_shape(kA)[1].at(bucket));
  }

  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    const Shape& a = op.in_shape(kA);
    if (a[1].symbol == Symbol::kTokens) {
      PLIMSOLL_CHECK(inputs[kA] == Tail::kZero || inputs[kB] == Tail::kZero,
                     "scaled_matmul '{}' sums over tokens, so one of its operands must be zero in the rows "
                     "after the last token, but neither is",
                     op.output(kC).name);
      return {Tail::kNone};
    }
    if (!a.has_token_rows()) return {Tail::kNone};
    return {inputs[kA] == Tail::kZero && !op.has_input(kBias) ? Tail::kZero : Tail::kFinite};
  }

 private:
  static constexpr std::array kInputs{
      InputOperand::required(kA, "a"),           InputOperand::required(kB, "b"),
      InputOperand::optional(kBias, "bias"),     InputOperand::into(kInto, "into", kC),
      InputOperand::accumulate_flag(kFlag),      InputOperand::required(kAScale, "a_scale"),
      InputOperand::required(kBScale, "b_scale")};
  static constexpr std::array kOutputs{OutputOperand::required(kC, "c")};
};

}  // namespace

const OpSchema& scaled_matmul_op() {
  static const ScaledMatmul op;
  return op;
}

}  // namespace plimsoll
