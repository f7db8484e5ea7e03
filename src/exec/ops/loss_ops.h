// The arguments of losses. Thread-safe: pure functions.
#pragma once

#include <functional>

#include "exec/bound_op.h"
#include "graph/ops/ops.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {

SoftmaxFwdArgs log_softmax_args(const BindContext& context);
SoftmaxBwdArgs log_softmax_bwd_args(const BindContext& context);
NllFwdArgs nll_args(const BindContext& context);
NllBwdArgs nll_bwd_args(const BindContext& context);
SoftmaxCrossEntropyFwdArgs cross_entropy_args(const BindContext& context);
SoftmaxCrossEntropyBwdArgs cross_entropy_bwd_args(const BindContext& context);

// The arguments of mse and bce_with_logits, whose kernels take structs with the same fields.
template <typename Args>
Args element_loss_args(const BindContext& context) {
  Args args{.x_BK = context.input(ElementLossOp::kLogits),
            .labels_BK = context.input(ElementLossOp::kLabels),
            .denominator = context.input(ElementLossOp::kDenominator),
            .loss = context.output(ElementLossOp::kLoss),
            .num_rows = context.input_size(ElementLossOp::kLogits, 0),
            .num_classes = context.input_size(ElementLossOp::kLogits, 1)};
  args.scratch = context.scratch();
  return args;
}
template <typename Args>
Args element_loss_bwd_args(const BindContext& context) {
  return {.x_BK = context.input(ElementLossBwdOp::kLogits),
          .labels_BK = context.input(ElementLossBwdOp::kLabels),
          .denominator = context.input(ElementLossBwdOp::kDenominator),
          .d_loss = context.input(ElementLossBwdOp::kDLoss),
          .d_x_BK = context.output(ElementLossBwdOp::kDLogits),
          .num_rows = context.input_size(ElementLossBwdOp::kLogits, 0),
          .num_classes = context.input_size(ElementLossBwdOp::kLogits, 1)};
}

LinearCrossEntropyProblem linear_cross_entropy_problem(const BindContext& context);
LinearCrossEntropyFwdArgs linear_cross_entropy_args(const BindContext& context);
LinearCrossEntropyBwdArgs linear_cross_entropy_bwd_args(const BindContext& context);
LinearCrossEntropyGradArgs linear_cross_entropy_grad_args(const BindContext& context);

std::function<void()> bind_linear_cross_entropy_cpu(const BindContext& context);
std::function<void()> bind_linear_cross_entropy_bwd_cpu(const BindContext& context);
std::function<void()> bind_linear_cross_entropy_grad_cpu(const BindContext& context);

}  // namespace plimsoll
