// The arguments of losses.
#include "exec/kernel_args.h"

namespace plimsoll {
namespace {

// What the three ops of a classifier with its loss read alike.
template <typename Args>
Args linear_cross_entropy_operands(const BindContext& context) {
  Args args;
  args.x_BH = context.input(0);
  args.w_KH = context.input(1);
  args.bias_K = context.input(2);
  args.labels_B = context.input(3);
  args.denominator = context.input(4);
  args.scratch = scratch_bytes_of(context);
  return args;
}

// What the losses of one label a row read alike, forward and backward.
template <typename Args>
Args label_loss_operands(const BindContext& context) {
  Args args;
  args.labels_B = context.input(1);
  args.denominator = context.input(2);
  args.num_rows = context.input_size(0, 0);
  args.num_classes = context.input_size(0, 1);
  args.label_smoothing = context.attributes().number("smoothing");
  return args;
}

// Multi-label and regression losses have arguments of one form.
template <typename Args>
Args row_loss_fwd_args(const BindContext& context) {
  Args args{.x_BK = context.input(0),
            .labels_BK = context.input(1),
            .denominator = context.input(2),
            .loss = context.output(0),
            .num_rows = context.input_size(0, 0),
            .num_classes = context.input_size(0, 1)};
  args.scratch = context.scratch();
  return args;
}
template <typename Args>
Args row_loss_bwd_args(const BindContext& context) {
  return {.x_BK = context.input(0),
          .labels_BK = context.input(1),
          .denominator = context.input(2),
          .d_loss = context.input(4),
          .d_x_BK = context.output(0),
          .num_rows = context.input_size(0, 0),
          .num_classes = context.input_size(0, 1)};
}

}  // namespace

SoftmaxCrossEntropyFwdArgs cross_entropy_fwd_args(const BindContext& context) {
  auto args = label_loss_operands<SoftmaxCrossEntropyFwdArgs>(context);
  args.logits_BK = context.input(0);
  args.loss = context.output(0);
  args.scratch = context.scratch();
  return args;
}
SoftmaxCrossEntropyBwdArgs cross_entropy_bwd_args(const BindContext& context) {
  auto args = label_loss_operands<SoftmaxCrossEntropyBwdArgs>(context);
  args.logits_BK = context.input(0);
  args.d_loss = context.input(3);
  args.d_logits_BK = context.output(0);
  return args;
}
LinearCrossEntropyProblem linear_cross_entropy_problem(const BindContext& context) {
  const OpView op = context.view();
  const PlanRequest& request = context.request();
  // The plan gives its scratch no room for operands in three parts.
  const Fp32Products fp32 =
      request.precision.fp32_products == Fp32Products::kTf32 ? Fp32Products::kTf32 : Fp32Products::kF32;
  return {.rows = context.input_size(0, 0),
          .chunk_rows = context.attributes().integer("chunk_rows"),
          .hidden = context.input_size(0, 1),
          .classes = context.input_size(1, 0),
          .x = op.input(0).type.dtype,
          .w = op.input(1).type.dtype,
          .d_w = (op.op.def->name().ends_with("_grad") ? op.output(0) : op.input(1)).type.dtype,
          .bias_dtype = op.has_input(2) ? op.input(2).type.dtype : DType::kF32,
          .bias = op.has_input(2) ? MatmulBias::kRow : MatmulBias::kNone,
          .label_smoothing = context.attributes().number("smoothing"),
          .num_threads = request.device.num_threads,
          .isa = request.device.isa,
          .fp32 = fp32,
          .workspace_bytes = request.products.workspace_bytes};
}
LinearCrossEntropyFwdArgs linear_cross_entropy_fwd_args(const BindContext& context) {
  auto args = linear_cross_entropy_operands<LinearCrossEntropyFwdArgs>(context);
  args.loss = context.output(0);
  return args;
}
LinearCrossEntropyBwdArgs linear_cross_entropy_bwd_args(const BindContext& context) {
  auto args = linear_cross_entropy_operands<LinearCrossEntropyBwdArgs>(context);
  args.d_loss = context.input(5);
  args.d_x_BH = context.output(0);
  return args;
}
LinearCrossEntropyGradArgs linear_cross_entropy_grad_args(const BindContext& context) {
  auto args = linear_cross_entropy_operands<LinearCrossEntropyGradArgs>(context);
  args.d_loss = context.input(5);
  args.d_w_KH = context.output(0);
  args.d_bias_K = context.output(1);
  return args;
}
NllFwdArgs nll_fwd_args(const BindContext& context) {
  auto args = label_loss_operands<NllFwdArgs>(context);
  args.y_BK = context.input(0);
  args.loss = context.output(0);
  args.scratch = context.scratch();
  return args;
}
NllBwdArgs nll_bwd_args(const BindContext& context) {
  auto args = label_loss_operands<NllBwdArgs>(context);
  args.d_loss = context.input(3);
  args.d_y_BK = context.output(0);
  return args;
}
SoftmaxFwdArgs log_softmax_fwd_args(const BindContext& context) {
  return {.x_BK = context.input(0),
          .y_BK = context.output(0),
          .num_rows = context.input_size(0, 0),
          .num_classes = context.input_size(0, 1)};
}
SoftmaxBwdArgs log_softmax_bwd_args(const BindContext& context) {
  return {.y_BK = context.input(0),
          .d_y_BK = context.input(1),
          .d_x_BK = context.output(0),
          .num_rows = context.input_size(0, 0),
          .num_classes = context.input_size(0, 1)};
}

BceWithLogitsFwdArgs bce_fwd_args(const BindContext& context) {
  return row_loss_fwd_args<BceWithLogitsFwdArgs>(context);
}
BceWithLogitsBwdArgs bce_bwd_args(const BindContext& context) {
  return row_loss_bwd_args<BceWithLogitsBwdArgs>(context);
}
MseFwdArgs mse_fwd_args(const BindContext& context) {
  return row_loss_fwd_args<MseFwdArgs>(context);
}
MseBwdArgs mse_bwd_args(const BindContext& context) {
  return row_loss_bwd_args<MseBwdArgs>(context);
}

}  // namespace plimsoll
