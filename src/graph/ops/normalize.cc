// normalize(x) {eps}: n_TC = (x - mean) rstd, rstd_T = 1 / sqrt(var + eps), with the statistics of each row in fp32
// (two passes).
//
// normalize_bwd(n, rstd, d_n): d_x = rstd (d_n - mean(d_n) - n mean(d_n n)).
//
// Source: Ba et al., arXiv 1607.06450. The backward pass keeps the normalized values; the output of the layer is
// recomputed from them with gain and bias.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Normalize final : public OpSchema, private NormalizeOp {
 public:
  std::string_view name() const override { return "normalize"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2, op, "x[T,C]");
    const DType dtype = op.input(kX).type.dtype;
    return {op.input(kX).type, {dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{op.in_shape(kX)[0]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 7.0 * static_cast<double>(op.out_shape(kN).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{kX} : std::vector<int>{};
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_n = context.d_output(kN);
    if (d_n == kNoValue || !context.wants(kX)) return;
    const Op& op = context.op();
    context.set(kX, emit(context.graph(), normalize_bwd_op(), {op.outputs[kN], op.outputs[kRstd], d_n}));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kN, "n"),
                                       OutputOperand::required(kRstd, "rstd")};
};

class NormalizeBwd final : public OpSchema, private NormalizeBwdOp {
 public:
  std::string_view name() const override { return "normalize_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kN) == op.in_shape(kDN), op, "n[T,C], rstd[T], d_n[T,C]");
    return {op.input(kDN).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 8.0 * static_cast<double>(op.out_shape(kDX).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kDX).has_token_rows() ? inputs[kDN] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kDN}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kN, "n"), InputOperand::required(kRstd, "rstd"),
                                      InputOperand::required(kDN, "d_n")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

}  // namespace

const OpSchema& normalize_op() {
  static const Normalize op;
  return op;
}
const OpSchema& normalize_bwd_op() {
  static const NormalizeBwd op;
  return op;
}

}  // namespace plimsoll
