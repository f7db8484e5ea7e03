#include "kernels/layer_norm/normalize.h"

#include "kernels/layer_norm/cuda/norm_rows.cuh"

namespace plimsoll {

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
