// normalize(x) {eps}: n_TC = (x - mean) rstd, rstd_T = 1 / sqrt(var + eps), statistics of each row in fp32
// (two passes). normalize_bwd(n, rstd, d_n): d_x = rstd (d_n - mean(d_n) - n mean(d_n n)). Source: Ba et al.,
// arXiv 1607.06450. The normalised values are what the backward pass keeps: the layer's output is recomputed
// from them with gain and bias.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Normalize final : public OpSchema {
 public:
  std::string_view name() const override { return "normalize"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 1 && op.in_shape(0).rank() == 2, op, "x[T,C]");
    const DType dtype = op.input(0).type.dtype;
    return {op.input(0).type, {dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{op.in_shape(0)[0]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 7.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<int> may_overwrite(const OpView&, int output) const override {
    return output == 0 ? std::vector<int>{0} : std::vector<int>{};
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_n = context.d_output(0);
    if (d_n == kNoValue || !context.wants(0)) return;
    const Op& op = context.op();
    context.set(0, emit(context.graph(), normalize_bwd_op(), {op.outputs[0], op.outputs[1], d_n}));
  }
};

class NormalizeBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "normalize_bwd"; }
  OpGroup group() const override { return OpGroup::kNormalization; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 3 && op.in_shape(0) == op.in_shape(2), op,
                    "n[T,C], rstd[T], d_n[T,C]");
    return {op.input(2).type};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 8.0 * static_cast<double>(op.out_shape(0).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(0).has_token_rows() ? inputs[2] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {2}; }
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
