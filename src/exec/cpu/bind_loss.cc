#include "exec/bound_op.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {
namespace {

// Multi-label and regression losses have arguments of one form; the number of real rows is data.
template <typename FwdArgs, typename BwdArgs>
std::function<void()> bind_row_loss(const BindContext& context, void (*fwd)(const FwdArgs&),
                                    void (*bwd)(const BwdArgs&)) {
  const int64_t rows = context.input_size(0, 0);
  const int64_t classes = context.input_size(0, 1);
  if (context.view().num_inputs() == 4) {
    FwdArgs args{.x_BK = context.input(0),
                 .labels_BK = context.input(1),
                 .denominator = context.input(2),
                 .loss = context.output(0),
                 .num_rows = rows,
                 .num_classes = classes};
    return [args, fwd, real = context.input(3)]() mutable {
      args.num_real_rows = read_integer(real);
      fwd(args);
    };
  }
  BwdArgs args{.x_BK = context.input(0),
               .labels_BK = context.input(1),
               .denominator = context.input(2),
               .d_loss = context.input(4),
               .d_x_BK = context.output(0),
               .num_rows = rows,
               .num_classes = classes};
  return [args, bwd, real = context.input(3)]() mutable {
    args.num_real_rows = read_integer(real);
    bwd(args);
  };
}

std::function<void()> bind_cross_entropy(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const int64_t rows = context.input_size(0, 0);
  const int64_t classes = context.input_size(0, 1);
  if (name == "softmax_cross_entropy") {
    const SoftmaxCrossEntropyFwdArgs args{.logits_BK = context.input(0),
                                          .labels_B = context.input(1),
                                          .denominator = context.input(2),
                                          .loss = context.output(0),
                                          .num_rows = rows,
                                          .num_classes = classes,
                                          .label_smoothing = context.attributes().number("smoothing")};
    return [args, run = context.pick(softmax_cross_entropy_fwd_ref, softmax_cross_entropy_fwd_cpu)] {
      run(args);
    };
  }
  if (name == "softmax_cross_entropy_bwd") {
    const SoftmaxCrossEntropyBwdArgs args{.logits_BK = context.input(0),
                                          .labels_B = context.input(1),
                                          .denominator = context.input(2),
                                          .d_loss = context.input(3),
                                          .d_logits_BK = context.output(0),
                                          .num_rows = rows,
                                          .num_classes = classes,
                                          .label_smoothing = context.attributes().number("smoothing")};
    return [args, run = context.pick(softmax_cross_entropy_bwd_ref, softmax_cross_entropy_bwd_cpu)] {
      run(args);
    };
  }
  if (name == "nll") {
    const NllFwdArgs args{.y_BK = context.input(0),
                          .labels_B = context.input(1),
                          .denominator = context.input(2),
                          .loss = context.output(0),
                          .num_rows = rows,
                          .num_classes = classes,
                          .label_smoothing = context.attributes().number("smoothing")};
    return [args, run = context.pick(nll_fwd_ref, nll_fwd_cpu)] { run(args); };
  }
  if (name == "nll_bwd") {
    const NllBwdArgs args{.labels_B = context.input(1),
                          .denominator = context.input(2),
                          .d_loss = context.input(3),
                          .d_y_BK = context.output(0),
                          .num_rows = rows,
                          .num_classes = classes,
                          .label_smoothing = context.attributes().number("smoothing")};
    return [args, run = context.pick(nll_bwd_ref, nll_bwd_cpu)] { run(args); };
  }
  return {};
}

}  // namespace

std::function<void()> bind_loss_cpu(const BindContext& context) {
  if (auto run = bind_cross_entropy(context)) return run;
  const std::string_view name = context.op().def->name();
  if (name.starts_with("bce_with_logits")) {
    return bind_row_loss(context, context.pick(bce_with_logits_fwd_ref, bce_with_logits_fwd_cpu),
                         context.pick(bce_with_logits_bwd_ref, bce_with_logits_bwd_cpu));
  }
  if (name.starts_with("mse")) {
    return bind_row_loss(context, context.pick(mse_fwd_ref, mse_fwd_cpu),
                         context.pick(mse_bwd_ref, mse_bwd_cpu));
  }
  if (name == "log_softmax") {
    const SoftmaxFwdArgs args{.x_BK = context.input(0),
                              .y_BK = context.output(0),
                              .num_rows = context.input_size(0, 0),
                              .num_classes = context.input_size(0, 1)};
    return [args, run = context.pick(log_softmax_fwd_ref, log_softmax_fwd_cpu)] { run(args); };
  }
  if (name == "log_softmax_bwd") {
    const SoftmaxBwdArgs args{.y_BK = context.input(0),
                              .d_y_BK = context.input(1),
                              .d_x_BK = context.output(0),
                              .num_rows = context.input_size(0, 0),
                              .num_classes = context.input_size(0, 1)};
    return [args, run = context.pick(log_softmax_bwd_ref, log_softmax_bwd_cpu)] { run(args); };
  }
  return {};
}

}  // namespace plimsoll
