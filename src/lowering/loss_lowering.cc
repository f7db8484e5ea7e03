#include "lowering/lowering.h"

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

// The functions below read the operands x, w and bias of all ops that fuse a classifier's last matrix product with its loss at the
// positions that LinearCrossEntropyOp defines. The other ops must therefore have these operands at the same positions.
static_assert(int{LinearClassSumsOp::kX} == LinearCrossEntropyOp::kX &&
              int{LinearClassSumsOp::kW} == LinearCrossEntropyOp::kW &&
              int{LinearClassSumsOp::kBias} == LinearCrossEntropyOp::kBias &&
              int{LinearClassSumsBwdOp::kBias} == LinearCrossEntropyOp::kBias &&
              int{LinearClassSumsGradOp::kBias} == LinearCrossEntropyOp::kBias &&
              int{LinearClassSumsGradientsOp::kBias} == LinearCrossEntropyOp::kBias);
static_assert(int{LinearCrossEntropyBwdOp::kX} == LinearCrossEntropyOp::kX &&
              int{LinearCrossEntropyBwdOp::kW} == LinearCrossEntropyOp::kW &&
              int{LinearCrossEntropyBwdOp::kBias} == LinearCrossEntropyOp::kBias &&
              int{LinearCrossEntropyGradOp::kX} == LinearCrossEntropyOp::kX &&
              int{LinearCrossEntropyGradOp::kW} == LinearCrossEntropyOp::kW &&
              int{LinearCrossEntropyGradOp::kBias} == LinearCrossEntropyOp::kBias &&
              int{LinearCrossEntropyWithGradientsOp::kX} == LinearCrossEntropyOp::kX &&
              int{LinearCrossEntropyWithGradientsOp::kW} == LinearCrossEntropyOp::kW &&
              int{LinearCrossEntropyWithGradientsOp::kBias} == LinearCrossEntropyOp::kBias);

// Returns the type of the weight gradient d_w, or the type of the weight itself if the op does not compute this gradient.
DType weight_gradient_type(const OpView& op) {
  if (op.op.def == &linear_cross_entropy_grad_op())
    return op.output(LinearCrossEntropyGradOp::kDW).type.dtype;
  if (op.op.def == &linear_cross_entropy_with_gradients_op())
    return op.output(LinearCrossEntropyWithGradientsOp::kDW).type.dtype;
  if (op.op.def == &linear_class_sums_grad_op()) return op.output(LinearClassSumsGradOp::kDW).type.dtype;
  if (op.op.def == &linear_class_sums_gradients_op())
    return op.output(LinearClassSumsGradientsOp::kDW).type.dtype;
  return op.input(LinearCrossEntropyOp::kW).type.dtype;
}

LoweredOp describe_linear_cross_entropy(const OpView& op, const Bucket& bucket, const KernelTarget& target) {
  return {.dtype = op.input(LinearCrossEntropyOp::kX).type.dtype,
          .family = linear_cross_entropy_problem(op, bucket, target)};
}

// Describes a cross entropy. With a z-loss, a second loss term for large logits, the kernel for GPUs stores two numbers per row:
// the cross entropy and the z-loss.
LoweredOp describe_cross_entropy(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  LoweredOp lowered = describe_rows_of(op.input(ClassLossOp::kLogits), bucket);
  if (z_coefficient_of(op.attributes()) > 0.0) std::get<RowsProblem>(lowered.family).sums_per_row = 2;
  return lowered;
}
LoweredOp describe_class_sums_loss(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  LoweredOp lowered = describe_rows_of(op.input(ClassSumsLossOp::kSums), bucket);
  if (z_coefficient_of(op.attributes()) > 0.0) std::get<RowsProblem>(lowered.family).sums_per_row = 2;
  return lowered;
}

}  // namespace

LinearCrossEntropyProblem linear_cross_entropy_problem(const OpView& op, const Bucket& bucket,
                                                       const KernelTarget& target) {
  return {.rows = op.in_shape(LinearCrossEntropyOp::kX)[0].at(bucket),
          .chunk_rows = op.attributes().integer("chunk_rows"),
          .hidden = op.in_shape(LinearCrossEntropyOp::kX)[1].at(bucket),
          .classes = op.in_shape(LinearCrossEntropyOp::kW)[0].at(bucket),
          .x = op.input(LinearCrossEntropyOp::kX).type.dtype,
          .w = op.input(LinearCrossEntropyOp::kW).type.dtype,
          .d_w = weight_gradient_type(op),
          .bias_dtype = op.has_input(LinearCrossEntropyOp::kBias)
                            ? op.input(LinearCrossEntropyOp::kBias).type.dtype
                            : DType::kF32,
          .bias = op.has_input(LinearCrossEntropyOp::kBias) ? MatmulBias::kRow : MatmulBias::kNone,
          .label_smoothing = op.attributes().number("smoothing"),
          .z_coefficient = z_coefficient_of(op.attributes()),
          .columns = op.attributes().has(kTensorRanks) ? class_columns_of(op.attributes()) : ClassColumns(),
          .num_threads = target.num_threads,
          .isa = target.isa,
          .fp32 = target.fp32_products == Fp32Products::kTf32 ? Fp32Products::kTf32 : Fp32Products::kF32,
          .workspace_bytes = target.matmul_workspace_bytes};
}

std::vector<Lowering> loss_lowerings() {
  return {
      {&log_softmax_op(), "log_softmax_fwd", describe_rows<LogSoftmaxOp::kX>},
      {&log_softmax_bwd_op(), "log_softmax_bwd", describe_rows<LogSoftmaxBwdOp::kY>},
      {&nll_op(), "nll_fwd", describe_rows<ClassLossOp::kLogits>},
      {&nll_bwd_op(), "nll_bwd", describe_rows<ClassLossBwdOp::kLogits>},
      {&softmax_cross_entropy_op(), "softmax_cross_entropy_fwd", describe_cross_entropy},
      {&softmax_cross_entropy_bwd_op(), "softmax_cross_entropy_bwd", describe_rows<ClassLossBwdOp::kLogits>},
      {&class_sums_op(), "class_sums", describe_rows<ClassSumsOp::kLogits>},
      {&class_sums_bwd_op(), "class_sums_bwd", describe_rows<ClassSumsBwdOp::kLogits>},
      {&class_sums_loss_op(), "class_sums_loss", describe_class_sums_loss},
      {&class_sums_loss_bwd_op(), "class_sums_loss_bwd", describe_rows<ClassSumsLossBwdOp::kSums>},
      {&count_correct_op(), "count_correct", describe_rows<CountCorrectOp::kLogits>},
      {&top_logits_op(), "top_logits", describe_rows<TopLogitsOp::kLogits>},
      {&linear_class_sums_op(), "linear_cross_entropy_fwd", describe_linear_cross_entropy},
      {&linear_class_sums_bwd_op(), "linear_cross_entropy_bwd", describe_linear_cross_entropy},
      {&linear_class_sums_grad_op(), "linear_cross_entropy_grad", describe_linear_cross_entropy},
      {&linear_class_sums_gradients_op(), "linear_cross_entropy_with_gradients",
       describe_linear_cross_entropy},
      {&linear_cross_entropy_op(), "linear_cross_entropy_fwd", describe_linear_cross_entropy},
      {&linear_cross_entropy_bwd_op(), "linear_cross_entropy_bwd", describe_linear_cross_entropy},
      {&linear_cross_entropy_grad_op(), "linear_cross_entropy_grad", describe_linear_cross_entropy},
      {&linear_cross_entropy_with_gradients_op(), "linear_cross_entropy_with_gradients",
       describe_linear_cross_entropy},
      {&bce_with_logits_op(), "bce_with_logits_fwd", describe_rows<ElementLossOp::kLogits>},
      {&bce_with_logits_bwd_op(), "bce_with_logits_bwd", describe_rows<ElementLossBwdOp::kLogits>},
      {&mse_op(), "mse_fwd", describe_rows<ElementLossOp::kLogits>},
      {&mse_bwd_op(), "mse_bwd", describe_rows<ElementLossBwdOp::kLogits>}};
}

}  // namespace plimsoll
