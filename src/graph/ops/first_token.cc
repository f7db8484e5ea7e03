// first_token(x, cu_seqlens): out_BC = x[cu_seqlens[b]], the row that BERT's classifier reads; zero for an
// empty sequence. first_token_bwd(d_out, cu_seqlens): d_x_TC is zero except on those rows.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class FirstToken final : public OpSchema {
 public:
  std::string_view name() const override { return "first_token"; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.in_shape(0).rank() == 2 && op.in_shape(0).has_token_rows(), op,
                    "x[T,C], cu_seqlens[B+1]");
    return {{op.input(0).type.dtype, Shape{kDimB, op.in_shape(0)[1]}}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    return 2.0 * static_cast<double>(op.output(0).bytes(bucket));
  }
  void gradient(GradientContext& context) const override {
    const ValueId d_out = context.d_output(0);
    if (d_out == kNoValue || !context.wants(0)) return;
    context.set(0, emit(context.graph(), first_token_bwd_op(), {d_out, context.op().inputs[1]}));
  }
};

class FirstTokenBwd final : public OpSchema {
 public:
  std::string_view name() const override { return "first_token_bwd"; }
  OpGroup group() const override { return OpGroup::kDataMovement; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 2 && op.in_shape(0).rank() == 2, op, "d_out[B,C], cu_seqlens[B+1]");
    return {{op.input(0).type.dtype, Shape{kDimT, op.in_shape(0)[1]}}};
  }
  double flops(const OpView&, const Bucket&) const override { return 0; }
  std::vector<Tail> tail(const OpView&, std::span<const Tail>) const override { return {Tail::kZero}; }
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
