// adjust_loss_scale(norm_1, finite_1, scale_1, good_steps_1, skipped_1) {smallest, growth_interval}: scale',
// good_steps', skipped' (new versions of the same bytes), and for the host unscaled_norm_1, used_scale_1 and
// skipped_out_1. The scale halves where the step's gradients are not finite, and doubles after
// growth_interval steps where they were (kernels/optimizer/loss_scale.h; torch.amp.GradScaler).
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class AdjustLossScale final : public OpSchema {
 public:
  std::string_view name() const override { return "adjust_loss_scale"; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    expect_operands(op.num_inputs() == 5 && op.input(2).type.dtype == DType::kF32 &&
                        op.input(3).type.dtype == DType::kI32 && op.input(4).type.dtype == DType::kI32,
                    op, "norm, finite, scale f32[1], good_steps i32[1], skipped i32[1]");
    const ValueType norm = op.input(0).type;
    return {op.input(2).type, op.input(3).type, op.input(4).type, norm, norm, op.input(4).type};
  }
  double flops(const OpView&, const Bucket&) const override { return 4; }
  int writes_into(const OpView&, int output) const override { return output < 3 ? 2 + output : -1; }
};

}  // namespace

const OpSchema& adjust_loss_scale_op() {
  static const AdjustLossScale op;
  return op;
}

}  // namespace plimsoll
