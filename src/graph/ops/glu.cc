// glu(x) {activation}: y_TF = f(x[:, :F]) x[:, F:] for x_T(2F): SwiGLU, GeGLU and their like (Shazeer, arXiv 2002.05202); f is
// GELU or the activation that the attribute names. glu_bwd(x, d_y) {activation}: d_x = [d_y x[:, F:] f'(x[:, :F]) | d_y
// f(x[:, :F])].
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class Glu final : public OpSchema, private PointwiseOp {
 public:
  std::string_view name() const override { return "glu"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  bool works_row_by_row(const OpView&) const override { return true; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2 && op.in_shape(kX)[1].offset % 2 == 0, op, "x[T,2F]");
    return {{op.input(kX).type.dtype, Shape{op.in_shape(kX)[0], op.in_shape(kX)[1].offset / 2}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 11.0 * static_cast<double>(op.out_shape(kY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    // Rows after the last token stay zero if they are zero, because f(0) * 0 = 0.
    return {op.out_shape(kY).has_token_rows() ? inputs[kX] : Tail::kNone};
  }
  std::optional<Recipe> recipe(const OpView& op, int output) const override { return same_op(op, output); }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    context.set(kX,
                emit(context.graph(), glu_bwd_op(), {context.op().inputs[kX], d_y}, context.op().attributes));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x")};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class GluBwd final : public OpSchema, private PointwiseBwdOp {
 public:
  std::string_view name() const override { return "glu_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kSaved)[0] == op.in_shape(kDY)[0] &&
                        op.in_shape(kSaved)[1].offset == 2 * op.in_shape(kDY)[1].offset,
                    op, "x[T,2F], d_y[T,F]");
    return {{op.input(kDY).type.dtype, op.in_shape(kSaved)}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return 22.0 * static_cast<double>(op.in_shape(kDY).elements(bucket));
  }
  std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const override {
    return {op.out_shape(kDX).has_token_rows() ? inputs[kDY] : Tail::kNone};
  }
  std::vector<int> may_overwrite(const OpView&, int) const override { return {kSaved}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kSaved, "x"),
                                      InputOperand::required(kDY, "d_y")};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

}  // namespace

const OpSchema& glu_op() {
  static const Glu op;
  return op;
}
const OpSchema& glu_bwd_op() {
  static const GluBwd op;
  return op;
}

}  // namespace plimsoll
