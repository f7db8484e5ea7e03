// adjust_loss_scale(norm_1, finite_1, scale_1, good_steps_1, skipped_1) {smallest, growth_interval}: scale',
// good_steps', skipped' (new versions of the same bytes), and for the host unscaled_norm_1, used_scale_1 and
// skipped_out_1. Each value has one element, which the suffix _1 says. The scale is halved if the gradients of the step
// are not finite, and doubled after growth_interval finite steps (kernels/optimizer/loss_scale.h; torch.amp.GradScaler).
#include <array>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

class AdjustLossScale final : public OpSchema, private AdjustLossScaleOp {
 public:
  std::string_view name() const override { return "adjust_loss_scale"; }
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    expect_operands(op.input(kScale).type.dtype == DType::kF32 &&
                        op.input(kGoodSteps).type.dtype == DType::kI32 &&
                        op.input(kSkipped).type.dtype == DType::kI32,
                    op, "norm, finite, scale f32[1], good_steps i32[1], skipped i32[1]");
    const ValueType norm = op.input(kNorm).type;
    return {op.input(kScale).type,  op.input(kGoodSteps).type, op.input(kSkipped).type, norm, norm,
            op.input(kSkipped).type};
  }
  double flops(const OpView&, const Bucket&) const override { return 4; }
  int writes_into(const OpView&, int output) const override { return output < 3 ? 2 + output : -1; }

 private:
  static constexpr std::array kInputs{InputOperand::required(kNorm, "norm"),
                                      InputOperand::required(kFinite, "finite"),
                                      InputOperand::replaced(kScale, "scale", kNewScale),
                                      InputOperand::replaced(kGoodSteps, "good_steps", kNewGoodSteps),
                                      InputOperand::replaced(kSkipped, "skipped", kNewSkipped)};
  static constexpr std::array kOutputs{OutputOperand::required(kNewScale, "new_scale"),
                                       OutputOperand::required(kNewGoodSteps, "new_good_steps"),
                                       OutputOperand::required(kNewSkipped, "new_skipped"),
                                       OutputOperand::required(kUnscaledNorm, "unscaled_norm"),
                                       OutputOperand::required(kUsedScale, "used_scale"),
                                       OutputOperand::required(kSkippedOut, "skipped_out")};
};

}  // namespace

const OpSchema& adjust_loss_scale_op() {
  static const AdjustLossScale op;
  return op;
}

}  // namespace plimsoll
