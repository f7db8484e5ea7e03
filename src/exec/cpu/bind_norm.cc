#include "exec/bound_op.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {
namespace {

std::function<void()> bind_fused_backward(const BindContext& context) {
  const bool p = context.attributes().number("p") > 0.0;
  const bool residual = context.attributes().integer("residual") != 0;
  const bool bias = context.attributes().integer("bias") != 0;
  BiasDropoutResidualNormBwdArgs args;
  args.d_y = context.input(0);
  args.d_y2 = context.input(1);
  args.x_hat = context.input(2);
  args.rstd = context.input(3);
  args.gain = context.input(4);
  args.scratch = context.scratch();
  args.T = context.input_size(0, 0);
  args.C = context.input_size(0, 1);
  args.p = context.attributes().number("p");
  int next = 0;
  if (residual || !p) args.d_residual = context.output(next++);
  if (p) args.d_x = context.output(next++);
  args.d_gain = context.output(next++);
  args.d_beta = context.output(next++);
  if (bias) args.d_bias = context.output(next++);
  return
      [args, rng = context.input(5), flag = context.input(9),
       site = context.attributes().integer_or("site", 0),
       run = context.pick(bias_dropout_residual_norm_bwd_ref, bias_dropout_residual_norm_bwd_cpu)]() mutable {
        args.where = read_site(rng, site);
        args.accumulate = read_flag(flag);
        run(args);
      };
}

}  // namespace

std::function<void()> bind_norm_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "normalize") {
    const NormalizeFwdArgs args{.x = context.input(0),
                                .x_hat = context.output(0),
                                .rstd = context.output(1),
                                .T = context.input_size(0, 0),
                                .C = context.input_size(0, 1),
                                .eps = context.attributes().number("eps")};
    return [args, run = context.pick(normalize_fwd_ref, normalize_fwd_cpu)] { run(args); };
  }
  if (name == "normalize_bwd") {
    const NormalizeBwdArgs args{.d_x_hat = context.input(2),
                                .x_hat = context.input(0),
                                .rstd = context.input(1),
                                .d_x = context.output(0),
                                .T = context.input_size(0, 0),
                                .C = context.input_size(0, 1)};
    return [args, run = context.pick(normalize_bwd_ref, normalize_bwd_cpu)] { run(args); };
  }
  if (name == "bias_dropout_residual_norm_bwd") return bind_fused_backward(context);
  if (name != "bias_dropout_residual_norm") return {};
  BiasDropoutResidualNormFwdArgs args{.x = context.input(0),
                                      .bias = context.input(1),
                                      .residual = context.input(2),
                                      .gain = context.input(3),
                                      .beta = context.input(4),
                                      .y = context.output(0),
                                      .x_hat = context.output(1),
                                      .rstd = context.output(2),
                                      .T = context.input_size(0, 0),
                                      .C = context.input_size(0, 1),
                                      .eps = context.attributes().number("eps"),
                                      .p = context.attributes().number("p"),
                                      .where = {}};
  return
      [args, rng = context.input(5), site = context.attributes().integer_or("site", 0),
       run = context.pick(bias_dropout_residual_norm_fwd_ref, bias_dropout_residual_norm_fwd_cpu)]() mutable {
        args.where = read_site(rng, site);
        run(args);
      };
}

}  // namespace plimsoll
