// sequence_mean(x, cu_seqlens): y_BC = the mean of the rows of each sequence; zero for an empty sequence.
//
// sequence_mean_bwd(d_y, cu_seqlens): d_x_TC = d_y of the row's sequence divided by the number of its rows; zero in tail rows (rows after
// the last token).
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class SequenceMean final : public OpSchema, private SequenceMeanOp {
 public:
  std::string_view name() const override { return "sequence_mean"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2 && op.in_shape(kX).has_token_rows(), op,
                    "x[T,C], cu_seqlens[B+1]");
    return {{op.input(kX).type.dtype, Shape{kDimB, op.in_shape(kX)[1]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.in_shape(kX).elements(bucket));
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_y = context.d_output(kY);
    if (d_y == kNoValue || !context.wants(kX)) return;
    context.set(kX, emit(context.graph(), sequence_mean_bwd_op(), {d_y, context.op().inputs[kCuSeqlens]}));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::sequence_offsets(kCuSeqlens)};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class SequenceMeanBwd final : public OpSchema, private SequenceMeanBwdOp {
 public:
  std::string_view name() const override { return "sequence_mean_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kDY).rank() == 2, op, "d_y[B,C], cu_seqlens[B+1]");
    return {{op.input(kDY).type.dtype, Shape{kDimT, op.in_shape(kDY)[1]}}};
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    return static_cast<double>(op.out_shape(kDX).elements(bucket));
  }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kDY, "d_y"),
                                      InputOperand::sequence_offsets(kCuSeqlens)};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

}  // namespace

const OpSchema& sequence_mean_op() {
  static const SequenceMean op;
  return op;
}
const OpSchema& sequence_mean_bwd_op() {
  static const SequenceMeanBwd op;
  return op;
}

}  // namespace plimsoll
