// first_token(x, cu_seqlens) {last}: y_BC = x[cu_seqlens[b]], the row that BERT's classifier reads, or, if {last} is 1, x[cu_seqlens[b + 1]
// - 1], the row that a decoder's classifier reads; zero for an empty sequence. With {last} = 1 the op can select any rows in ascending
// order: the input "cu_seqlens" may contain other boundaries than those of sequences, and the op selects the row before each boundary
// except the first. A loss selects its L rows with a label in this way: y_LC.
//
// first_token_bwd(d_y, cu_seqlens) {last}: d_x_TC, which is zero except on those rows.
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class FirstToken final : public OpSchema, private FirstTokenOp {
 public:
  std::string_view name() const override { return "first_token"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kX).rank() == 2 && op.in_shape(kX).has_token_rows() &&
                        op.in_shape(kCuSeqlens).rank() == 1 && op.in_shape(kCuSeqlens)[0].offset >= 1,
                    op, "x[T,C], cu_seqlens[B+1]");
    Dim rows = op.in_shape(kCuSeqlens)[0];
    rows.offset -= 1;
    return {{op.input(kX).type.dtype, Shape{rows, op.in_shape(kX)[1]}}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.output(kY).bytes(bucket));
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_out = context.d_output(kY);
    if (d_out == kNoValue || !context.wants(kX)) return;
    context.set(kX, emit(context.graph(), first_token_bwd_op(), {d_out, context.op().inputs[kCuSeqlens]},
                         context.op().attributes));
  }

 private:
  static constexpr std::array kInputs{InputOperand::required(kX, "x"),
                                      InputOperand::sequence_offsets(kCuSeqlens)};
  static constexpr std::array kOutputs{OutputOperand::required(kY, "y")};
};

class FirstTokenBwd final : public OpSchema, private FirstTokenBwdOp {
 public:
  std::string_view name() const override { return "first_token_bwd"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.in_shape(kDY).rank() == 2, op, "d_out[B,C], cu_seqlens[B+1]");
    return {{op.input(kDY).type.dtype, Shape{kDimT, op.in_shape(kDY)[1]}}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kDY, "d_y"),
                                      InputOperand::sequence_offsets(kCuSeqlens)};
  static constexpr std::array kOutputs{OutputOperand::required(kDX, "d_x")};
};

}  // namespace

const OpSchema& first_token_op() {
  static const FirstToken op;
  return op;
}
const OpSchema& first_token_bwd_op() {
  static const FirstTokenBwd op;
  return op;
}

}  // namespace plimsoll
