#include "exec/ops/family_ops.h"

#include "graph/ops/ops.h"

namespace plimsoll {

NormalizeFwdArgs normalize_args(const BindContext& context) {
  return {.x = context.input(NormalizeOp::kX),
          .x_hat = context.output(NormalizeOp::kN),
          .rstd = context.output(NormalizeOp::kRstd),
          .T = context.input_size(NormalizeOp::kX, 0),
          .C = context.input_size(NormalizeOp::kX, 1),
          .eps = context.attributes().number("eps")};
}
NormalizeBwdArgs normalize_bwd_args(const BindContext& context) {
  return {.d_x_hat = context.input(NormalizeBwdOp::kDN),
          .x_hat = context.input(NormalizeBwdOp::kN),
          .rstd = context.input(NormalizeBwdOp::kRstd),
          .d_x = context.output(NormalizeBwdOp::kDX),
          .T = context.input_size(NormalizeBwdOp::kN, 0),
          .C = context.input_size(NormalizeBwdOp::kN, 1)};
}

namespace {

RmsNormDims rms_norm_dims(const BindContext& context, int x, int gain) {
  return {.T = context.input_size(x, 0),
          .N = context.input_size(x, 1),
          .C = context.input_size(gain, 0),
          .H = context.attributes().integer("heads"),
          .G = context.attributes().integer("second_heads")};
}

}  // namespace

RmsNormFwdArgs rms_norm_args(const BindContext& context) {
  return {.dims = rms_norm_dims(context, RmsNormOp::kX, RmsNormOp::kGain),
          .x = context.input(RmsNormOp::kX),
          .gain = context.input(RmsNormOp::kGain),
          .second_gain = context.input(RmsNormOp::kSecondGain),
          .y = context.output(RmsNormOp::kY),
          .rstd = context.output(RmsNormOp::kRstd),
          .eps = context.attributes().number("eps"),
          .residual = context.input(RmsNormOp::kResidual),
          .sum = context.output_row(RmsNormOp::kSum)};
}
RmsNormBwdArgs rms_norm_bwd_args(const BindContext& context) {
  return {.dims = rms_norm_dims(context, RmsNormBwdOp::kX, RmsNormBwdOp::kGain),
          .d_y = context.input(RmsNormBwdOp::kDY),
          .x = context.input(RmsNormBwdOp::kX),
          .gain = context.input(RmsNormBwdOp::kGain),
          .second_gain = context.input(RmsNormBwdOp::kSecondGain),
          .rstd = context.input(RmsNormBwdOp::kRstd),
          .d_x = context.output(RmsNormBwdOp::kDX),
          .d_gain = context.output_row(RmsNormBwdOp::kDGain),
          .d_second_gain = context.output_row(RmsNormBwdOp::kDSecond),
          .scratch = context.scratch(),
          .d_sum_term = context.input(RmsNormBwdOp::kDSumTerm)};
}

BiasDropoutResidualNormFwdArgs fused_norm_args(const BindContext& context) {
  using Norm = BiasDropoutResidualNormOp;
  return {.x = context.input(Norm::kX),
          .bias = context.input(Norm::kBias),
          .residual = context.input(Norm::kResidual),
          .gain = context.input(Norm::kGain),
          .beta = context.input(Norm::kBeta),
          .y = context.output(Norm::kY),
          .x_hat = context.output(Norm::kN),
          .rstd = context.output(Norm::kRstd),
          .sum = context.output_row(Norm::kSum),
          .T = context.input_size(Norm::kX, 0),
          .C = context.input_size(Norm::kX, 1),
          .eps = context.attributes().number("eps"),
          .p = context.attributes().number("p"),
          .where = {.site = static_cast<uint32_t>(context.attributes().integer_or("site", 0)),
                    .first_block = first_random_block(context)}};
}

BiasDropoutResidualNormBwdArgs fused_norm_bwd_args(const BindContext& context) {
  using Norm = BiasDropoutResidualNormBwdOp;
  BiasDropoutResidualNormBwdArgs args;
  args.d_y = context.input(Norm::kDY);
  args.d_y2 = context.input(Norm::kDY2);
  args.x_hat = context.input(Norm::kN);
  args.rstd = context.input(Norm::kRstd);
  args.gain = context.input(Norm::kGain);
  args.d_sum_term = context.input(Norm::kDSumTerm);
  args.d_residual = context.output_row(Norm::kDSum);
  args.d_x = context.output_row(Norm::kDX);
  args.d_gain = context.output_row(Norm::kDGain);
  args.d_beta = context.output_row(Norm::kDBeta);
  args.d_bias = context.output_row(Norm::kDBias);
  args.scratch = context.scratch();
  args.T = context.input_size(Norm::kDY, 0);
  args.C = context.input_size(Norm::kDY, 1);
  args.p = context.attributes().number("p");
  args.where.site = static_cast<uint32_t>(context.attributes().integer_or("site", 0));
  args.where.first_block = first_random_block(context);
  return args;
}

}  // namespace plimsoll
