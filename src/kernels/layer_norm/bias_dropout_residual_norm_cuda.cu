#include "kernels/layer_norm/bias_dropout_residual_norm.h"

#include "kernels/layer_norm/cuda/norm_rows.cuh"
#include "kernels/layer_norm/norm_few_rows.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

void bias_dropout_residual_norm_fwd_cuda(const BiasDropoutResidualNormFwdArgs& args, const int64_t* rng,
                                         CudaStream stream) {
  constexpr const char* kKernel = "bias_dropout_residual_norm_fwd_cuda";
  constexpr auto kOptional = Operand::Presence::kOptional;
  const DType dtype = cuda::cuda_type_of(kKernel, {{"x", args.x},
                                                   {"residual", args.residual, kOptional},
                                                   {"y", args.y},
                                                   {"x_hat", args.x_hat, kOptional},
                                                   {"sum", args.sum, kOptional}});
  cuda::check_cuda_operands(
      kKernel, {{"bias", args.bias, kOptional}, {"gain", args.gain}, {"beta", args.beta, kOptional}});
  const NormFewRowsArgs few_rows{.x = args.x,
                                 .residual = args.residual,
                                 .norm_bias = args.bias,
                                 .gain = args.gain,
                                 .beta = args.beta,
                                 .y = args.y,
                                 .sum = args.sum,
                                 .T = args.T,
                                 .C = args.C,
                                 .eps = args.eps};
  if (!args.x_hat && !args.rstd && args.p == 0.0 && norm_few_rows_fit(few_rows))
    return norm_few_rows_cuda(few_rows, stream);
  cuda::check_norm_columns(kKernel, args.C);
  cuda::launch_norm_fwd({.x = args.x.data,
                         .residual = args.residual.data,
                         .bias = cuda::any_floats(args.bias),
                         .gain = cuda::any_floats(args.gain),
                         .beta = cuda::any_floats(args.beta),
                         .y = args.y.data,
                         .x_hat = args.x_hat.data,
                         .rstd = args.rstd ? args.rstd.as<float>() : nullptr,
                         .sum = args.sum.data,
                         .T = args.T,
                         .C = args.C,
                         .eps = static_cast<float>(args.eps),
                         .dropout = cuda::dropout_of(kKernel, args.p, args.where, rng)},
                        dtype, stream);
}

void bias_dropout_residual_norm_bwd_cuda(const BiasDropoutResidualNormBwdArgs& args, const int64_t* rng,
                                         const int32_t* accumulate, CudaStream stream) {
  constexpr const char* kKernel = "bias_dropout_residual_norm_bwd_cuda";
  constexpr auto kOptional = Operand::Presence::kOptional;
  const DType dtype = cuda::cuda_type_of(kKernel, {{"d_y", args.d_y},
                                                   {"d_y2", args.d_y2, kOptional},
                                                   {"d_sum_term", args.d_sum_term, kOptional},
                                                   {"x_hat", args.x_hat},
                                                   {"d_residual", args.d_residual, kOptional},
                                                   {"d_x", args.d_x, kOptional}});
  cuda::check_cuda_operands(kKernel, {{"gain", args.gain}});
  for (const View& sum : {args.d_gain, args.d_beta, args.d_bias}) {
    check_column_sum(kKernel, {"sum", sum, kOptional}, args.scratch);
  }
  cuda::check_norm_columns(kKernel, args.C);
  cuda::launch_norm_bwd({.d_y = args.d_y.data,
                         .d_y2 = args.d_y2.data,
                         .x_hat = args.x_hat.data,
                         .rstd = args.rstd.as<float>(),
                         .gain = cuda::any_floats(args.gain),
                         .d_sum_term = args.d_sum_term.data,
                         .d_residual = args.d_residual.data,
                         .d_x = args.d_x.data,
                         .T = narrow<int32_t>(args.T),
                         .C = narrow<int32_t>(args.C),
                         .dropout = cuda::dropout_of(kKernel, args.p, args.where, rng)},
                        {.d_gain = args.d_gain,
                         .d_beta = args.d_beta,
                         .d_bias = args.d_bias,
                         .scratch = args.scratch,
                         .add = cuda::add_flag(accumulate, args.accumulate)},
                        dtype, stream);
}

void normalize_fwd_cuda(const NormalizeFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "normalize_fwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"x", args.x}, {"x_hat", args.x_hat}});
  PLIMSOLL_CHECK(static_cast<bool>(args.rstd), "{}: rstd is missing", kKernel);
  cuda::check_norm_columns(kKernel, args.C);
  cuda::launch_norm_fwd({.x = args.x.data,
                         .x_hat = args.x_hat.data,
                         .rstd = args.rstd.as<float>(),
                         .T = args.T,
                         .C = args.C,
                         .eps = static_cast<float>(args.eps)},
                        dtype, stream);
}

void normalize_bwd_cuda(const NormalizeBwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "normalize_bwd_cuda";
  const DType dtype =
      cuda::cuda_type_of(kKernel, {{"d_x_hat", args.d_x_hat}, {"x_hat", args.x_hat}, {"d_x", args.d_x}});
  cuda::check_norm_columns(kKernel, args.C);
  cuda::launch_norm_bwd({.d_y = args.d_x_hat.data,
                         .x_hat = args.x_hat.data,
                         .rstd = args.rstd.as<float>(),
                         .d_x = args.d_x.data,
                         .T = narrow<int32_t>(args.T),
                         .C = narrow<int32_t>(args.C)},
                        {}, dtype, stream);
}

}  // namespace plimsoll
