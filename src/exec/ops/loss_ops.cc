#include "exec/ops/family_ops.h"

#include "exec/ops/call.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Returns the arguments that are common to the forward and backward kernels of losses with one label per row.
template <typename Args>
Args class_loss_args(const BindContext& context) {
  static_assert(int{ClassLossBwdOp::kLogits} == ClassLossOp::kLogits &&
                int{ClassLossBwdOp::kLabels} == ClassLossOp::kLabels &&
                int{ClassLossBwdOp::kDenominator} == ClassLossOp::kDenominator);
  Args args;
  args.labels_B = context.input(ClassLossOp::kLabels);
  args.denominator = context.input(ClassLossOp::kDenominator);
  args.num_rows = context.input_size(ClassLossOp::kLogits, 0);
  args.num_classes = context.input_size(ClassLossOp::kLogits, 1);
  args.label_smoothing = context.attributes().number("smoothing");
  return args;
}

// Returns the range of classes that this rank of a tensor-parallel group has. `columns` is the number of columns of the rank's logits.
ClassShare class_share_of(const BindContext& context, int64_t columns) {
  return class_share(context.communicator(MeshAxis::kTensor).rank(), columns,
                     context.attributes().integer(kAllClasses));
}

// Returns the arguments that are common to class_sums_loss, which computes the loss from sums over the classes of every rank, and its
// backward op.
template <typename Args>
Args sums_loss_args(const BindContext& context) {
  static_assert(int{ClassSumsLossBwdOp::kSums} == ClassSumsLossOp::kSums &&
                int{ClassSumsLossBwdOp::kLabels} == ClassSumsLossOp::kLabels &&
                int{ClassSumsLossBwdOp::kDenominator} == ClassSumsLossOp::kDenominator);
  Args args;
  args.sums_BS = context.input(ClassSumsLossOp::kSums);
  args.labels_B = context.input(ClassSumsLossOp::kLabels);
  args.denominator = context.input(ClassSumsLossOp::kDenominator);
  args.num_rows = context.input_size(ClassSumsLossOp::kSums, 0);
  args.num_classes = context.attributes().integer(kAllClasses);
  args.label_smoothing = context.attributes().number("smoothing");
  args.z_coefficient = z_coefficient_of(context.attributes());
  args.columns = class_columns_of(context.attributes());
  return args;
}

// Returns the arguments that are common to the ops that compute a classifier's last matrix product together with its loss.
template <typename Args, typename Operands>
Args classifier_args(const BindContext& context) {
  Args args;
  args.x_BH = context.input(Operands::kX);
  args.w_KH = context.input(Operands::kW);
  args.bias_K = context.input(Operands::kBias);
  args.labels_B = context.input(Operands::kLabels);
  args.denominator = context.input(Operands::kDenominator);
  args.scratch = {static_cast<std::byte*>(context.scratch().data),
                  static_cast<size_t>(context.scratch_bytes())};
  return args;
}

// Returns the arguments that are common to the ops of linear_class_sums.cc, which compute a classifier's last matrix product together with
// the sums for its loss, if the ranks of a tensor-parallel group divide the classes.
template <typename Args, typename Operands>
Args divided_classifier_args(const BindContext& context) {
  Args args;
  args.x_BH = context.input(Operands::kX);
  args.w_KH = context.input(Operands::kW);
  args.bias_K = context.input(Operands::kBias);
  args.labels_B = context.input(Operands::kLabels);
  args.share = class_share_of(context, context.input_size(Operands::kW, 0));
  args.scratch = {static_cast<std::byte*>(context.scratch().data),
                  static_cast<size_t>(context.scratch_bytes())};
  return args;
}

// Returns a call of the kernel that the plan chose: the reference kernel, or the fast kernel, which
// `prepare` creates and which processes some rows at a time.
template <typename Args, typename Prepare>
std::function<void()> bind_chunks(const BindContext& context, const Args& args,
                                  void (*reference)(const LinearCrossEntropyProblem&, const Args&),
                                  Prepare prepare) {
  const LinearCrossEntropyProblem problem = linear_cross_entropy_problem(context);
  if (context.is_reference()) return [=] { reference(problem, args); };
  std::shared_ptr<PreparedLossChunks<Args>> prepared = prepare(problem);
  return [prepared, args] { prepared->run(args); };
}

// Does the same as bind_chunks() for ops that compute gradients of parameters. These ops add to the stored gradients if the accumulation
// flag is 1, and otherwise overwrite them.
template <typename Args, typename Prepare>
std::function<void()> bind_accumulating_chunks(const BindContext& context, Args args,
                                               void (*reference)(const LinearCrossEntropyProblem&,
                                                                 const Args&),
                                               Prepare prepare) {
  const LinearCrossEntropyProblem problem = linear_cross_entropy_problem(context);
  const AccumulateFlag flag(context);
  if (context.is_reference()) {
    return [=]() mutable {
      flag.read(args);
      reference(problem, args);
    };
  }
  std::shared_ptr<PreparedLossChunks<Args>> prepared = prepare(problem);
  return [prepared, args, flag]() mutable {
    flag.read(args);
    prepared->run(args);
  };
}

}  // namespace

SoftmaxFwdArgs log_softmax_args(const BindContext& context) {
  return {.x_BK = context.input(LogSoftmaxOp::kX),
          .y_BK = context.output(LogSoftmaxOp::kY),
          .num_rows = context.input_size(LogSoftmaxOp::kX, 0),
          .num_classes = context.input_size(LogSoftmaxOp::kX, 1)};
}
SoftmaxBwdArgs log_softmax_bwd_args(const BindContext& context) {
  return {.y_BK = context.input(LogSoftmaxBwdOp::kY),
          .d_y_BK = context.input(LogSoftmaxBwdOp::kDY),
          .d_x_BK = context.output(LogSoftmaxBwdOp::kDX),
          .num_rows = context.input_size(LogSoftmaxBwdOp::kY, 0),
          .num_classes = context.input_size(LogSoftmaxBwdOp::kY, 1)};
}

NllFwdArgs nll_args(const BindContext& context) {
  auto args = class_loss_args<NllFwdArgs>(context);
  args.y_BK = context.input(ClassLossOp::kLogits);
  args.loss = context.output(ClassLossOp::kLoss);
  args.scratch = context.scratch();
  return args;
}
NllBwdArgs nll_bwd_args(const BindContext& context) {
  auto args = class_loss_args<NllBwdArgs>(context);
  args.d_loss = context.input(ClassLossBwdOp::kDLoss);
  args.d_y_BK = context.output(ClassLossBwdOp::kDLogits);
  return args;
}

SoftmaxCrossEntropyFwdArgs cross_entropy_args(const BindContext& context) {
  auto args = class_loss_args<SoftmaxCrossEntropyFwdArgs>(context);
  args.logits_BK = context.input(ClassLossOp::kLogits);
  args.loss = context.output(ClassLossOp::kLoss);
  args.scratch = context.scratch();
  args.z_coefficient = z_coefficient_of(context.attributes());
  if (args.z_coefficient > 0.0) {
    args.z_loss = context.output(ClassLossOp::kZLoss);
    args.z_scratch = view_from(View{args.scratch.data, DType::kF64}, args.num_rows);
  }
  return args;
}
SoftmaxCrossEntropyBwdArgs cross_entropy_bwd_args(const BindContext& context) {
  auto args = class_loss_args<SoftmaxCrossEntropyBwdArgs>(context);
  args.z_coefficient = z_coefficient_of(context.attributes());
  args.logits_BK = context.input(ClassLossBwdOp::kLogits);
  args.d_loss = context.input(ClassLossBwdOp::kDLoss);
  args.d_logits_BK = context.output(ClassLossBwdOp::kDLogits);
  return args;
}

ClassSumsArgs class_sums_args(const BindContext& context) {
  const int64_t columns = context.input_size(ClassSumsOp::kLogits, 1);
  return {.logits_BK = context.input(ClassSumsOp::kLogits),
          .labels_B = context.input(ClassSumsOp::kLabels),
          .sums_BS = context.output(ClassSumsOp::kSums),
          .num_rows = context.input_size(ClassSumsOp::kLogits, 0),
          .row_stride = columns,
          .share = class_share_of(context, columns),
          .columns = class_columns_of(context.attributes())};
}
ClassSumsBwdArgs class_sums_bwd_args(const BindContext& context) {
  const int64_t columns = context.input_size(ClassSumsBwdOp::kLogits, 1);
  return {.logits_BK = context.input(ClassSumsBwdOp::kLogits),
          .labels_B = context.input(ClassSumsBwdOp::kLabels),
          .d_sums_BS = context.input(ClassSumsBwdOp::kDSums),
          .d_logits_BK = context.output(ClassSumsBwdOp::kDLogits),
          .num_rows = context.input_size(ClassSumsBwdOp::kLogits, 0),
          .row_stride = columns,
          .num_columns = columns,
          .share = class_share_of(context, columns),
          .columns = class_columns_of(context.attributes())};
}
ClassSumsLossArgs class_sums_loss_args(const BindContext& context) {
  auto args = sums_loss_args<ClassSumsLossArgs>(context);
  args.loss = context.output(ClassSumsLossOp::kLoss);
  args.rank_classes = context.attributes().integer(kRankClasses);
  args.scratch = context.scratch();
  if (args.z_coefficient > 0.0)
    args.z_loss = context.output(ClassSumsLossOp::kZLoss);
  else if (args.columns.counts)
    args.num_correct = context.output(ClassSumsLossOp::kNumCorrect);
  return args;
}
ClassSumsLossBwdArgs class_sums_loss_bwd_args(const BindContext& context) {
  auto args = sums_loss_args<ClassSumsLossBwdArgs>(context);
  args.d_loss = context.input(ClassSumsLossBwdOp::kDLoss);
  args.d_sums_BS = context.output(ClassSumsLossBwdOp::kDSums);
  return args;
}

CountCorrectArgs count_correct_args(const BindContext& context) {
  return {.logits_BK = context.input(CountCorrectOp::kLogits),
          .labels_B = context.input(CountCorrectOp::kLabels),
          .count = context.output(CountCorrectOp::kCount),
          .num_rows = context.input_size(CountCorrectOp::kLogits, 0),
          .num_classes = context.input_size(CountCorrectOp::kLogits, 1)};
}

TopLogitsArgs top_logits_args(const BindContext& context) {
  return {.logits_BV = context.input(TopLogitsOp::kLogits),
          .values_BK = context.output(TopLogitsOp::kValues),
          .ids_BK = context.output(TopLogitsOp::kIds),
          .log_sum_B = context.output(TopLogitsOp::kLogSum),
          .num_rows = context.input_size(TopLogitsOp::kLogits, 0),
          .num_classes = context.input_size(TopLogitsOp::kLogits, 1),
          .k = context.attributes().integer("k")};
}

LinearCrossEntropyProblem linear_cross_entropy_problem(const BindContext& context) {
  return linear_cross_entropy_problem(context.view(), context.bucket(), context.target());
}
LinearCrossEntropyFwdArgs linear_cross_entropy_args(const BindContext& context) {
  auto args = classifier_args<LinearCrossEntropyFwdArgs, LinearCrossEntropyOp>(context);
  args.loss = context.output(LinearCrossEntropyOp::kLoss);
  if (z_coefficient_of(context.attributes()) > 0.0)
    args.z_loss = context.output(LinearCrossEntropyOp::kZLoss);
  else if (context.op().outputs.size() > LinearCrossEntropyOp::kNumCorrect)
    args.num_correct = context.output(LinearCrossEntropyOp::kNumCorrect);
  return args;
}
LinearCrossEntropyBwdArgs linear_cross_entropy_bwd_args(const BindContext& context) {
  auto args = classifier_args<LinearCrossEntropyBwdArgs, LinearCrossEntropyBwdOp>(context);
  args.d_loss = context.input(LinearCrossEntropyBwdOp::kDLoss);
  args.d_x_BH = context.output(LinearCrossEntropyBwdOp::kDX);
  return args;
}
LinearCrossEntropyGradArgs linear_cross_entropy_grad_args(const BindContext& context) {
  auto args = classifier_args<LinearCrossEntropyGradArgs, LinearCrossEntropyGradOp>(context);
  args.d_loss = context.input(LinearCrossEntropyGradOp::kDLoss);
  args.d_w_KH = context.output(LinearCrossEntropyGradOp::kDW);
  args.d_bias_K = context.output(LinearCrossEntropyGradOp::kDBias);
  return args;
}

LinearCrossEntropyWithGradientsArgs linear_cross_entropy_with_gradients_args(const BindContext& context) {
  using Operands = LinearCrossEntropyWithGradientsOp;
  auto args = classifier_args<LinearCrossEntropyWithGradientsArgs, Operands>(context);
  args.d_loss = context.input(Operands::kDLoss);
  args.loss = context.output(Operands::kLoss);
  args.z_loss = context.output(Operands::kZLoss);
  args.d_x_BH = context.output(Operands::kDX);
  args.d_w_KH = context.output(Operands::kDW);
  args.d_bias_K = context.output(Operands::kDBias);
  return args;
}

LinearCrossEntropyFwdArgs linear_class_sums_args(const BindContext& context) {
  auto args = divided_classifier_args<LinearCrossEntropyFwdArgs, LinearClassSumsOp>(context);
  args.sums_BS = context.output(LinearClassSumsOp::kSums);
  return args;
}
LinearCrossEntropyBwdArgs linear_class_sums_bwd_args(const BindContext& context) {
  auto args = divided_classifier_args<LinearCrossEntropyBwdArgs, LinearClassSumsBwdOp>(context);
  args.d_sums_BS = context.input(LinearClassSumsBwdOp::kDSums);
  args.d_x_BH = context.output(LinearClassSumsBwdOp::kDX);
  return args;
}
LinearCrossEntropyGradArgs linear_class_sums_grad_args(const BindContext& context) {
  auto args = divided_classifier_args<LinearCrossEntropyGradArgs, LinearClassSumsGradOp>(context);
  args.d_sums_BS = context.input(LinearClassSumsGradOp::kDSums);
  args.d_w_KH = context.output(LinearClassSumsGradOp::kDW);
  args.d_bias_K = context.output(LinearClassSumsGradOp::kDBias);
  return args;
}
LinearCrossEntropyWithGradientsArgs linear_class_sums_gradients_args(const BindContext& context) {
  using Operands = LinearClassSumsGradientsOp;
  auto args = divided_classifier_args<LinearCrossEntropyWithGradientsArgs, Operands>(context);
  args.d_sums_BS = context.input(Operands::kDSums);
  args.d_x_BH = context.output(Operands::kDX);
  args.d_w_KH = context.output(Operands::kDW);
  args.d_bias_K = context.output(Operands::kDBias);
  return args;
}

std::function<void()> bind_linear_class_sums_cpu(const BindContext& context) {
  return bind_chunks(context, linear_class_sums_args(context), linear_cross_entropy_fwd_ref,
                     prepare_linear_cross_entropy_fwd_cpu);
}
std::function<void()> bind_linear_class_sums_bwd_cpu(const BindContext& context) {
  return bind_chunks(context, linear_class_sums_bwd_args(context), linear_cross_entropy_bwd_ref,
                     prepare_linear_cross_entropy_bwd_cpu);
}
std::function<void()> bind_linear_class_sums_grad_cpu(const BindContext& context) {
  return bind_accumulating_chunks(context, linear_class_sums_grad_args(context),
                                  linear_cross_entropy_grad_ref, prepare_linear_cross_entropy_grad_cpu);
}
std::function<void()> bind_linear_class_sums_gradients_cpu(const BindContext& context) {
  return bind_accumulating_chunks(context, linear_class_sums_gradients_args(context),
                                  linear_cross_entropy_with_gradients_ref,
                                  prepare_linear_cross_entropy_with_gradients_cpu);
}

std::function<void()> bind_linear_cross_entropy_cpu(const BindContext& context) {
  return bind_chunks(context, linear_cross_entropy_args(context), linear_cross_entropy_fwd_ref,
                     prepare_linear_cross_entropy_fwd_cpu);
}
std::function<void()> bind_linear_cross_entropy_bwd_cpu(const BindContext& context) {
  return bind_chunks(context, linear_cross_entropy_bwd_args(context), linear_cross_entropy_bwd_ref,
                     prepare_linear_cross_entropy_bwd_cpu);
}
std::function<void()> bind_linear_cross_entropy_grad_cpu(const BindContext& context) {
  return bind_accumulating_chunks(context, linear_cross_entropy_grad_args(context),
                                  linear_cross_entropy_grad_ref, prepare_linear_cross_entropy_grad_cpu);
}
std::function<void()> bind_linear_cross_entropy_with_gradients_cpu(const BindContext& context) {
  return bind_accumulating_chunks(context, linear_cross_entropy_with_gradients_args(context),
                                  linear_cross_entropy_with_gradients_ref,
                                  prepare_linear_cross_entropy_with_gradients_cpu);
}

}  // namespace plimsoll
