#include "kernels/element_wise/scale_shift.h"

#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/element_wise/cuda/rows.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct Affine {
  AnyFloats gain, bias;  // the address bias.data is null if there is no bias

  template <int N>
  __device__ void prepare(int64_t c, float (&p)[2][N]) const {
    gain.load<N>(c, p[0]);
    bias.load_or_zero<N>(c, p[1]);
  }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&p)[2][N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = fmaf(x[i], p[0][i], p[1][i]);
  }
};

struct AffineBwd {
  static constexpr int kInputs = 2;
  static constexpr int kSums = 2;
  static constexpr bool kHasOutput = true;
  AnyFloats gain;

  template <int N>
  __device__ void prepare(int64_t c, float (&p)[2][N]) const {
    gain.load<N>(c, p[0]);
  }
  template <int N>
  __device__ void apply(const float (&d_y)[N], const float (&x_hat)[N], const float (&p)[2][N],
                        float (&d_x_hat)[N], float (&terms)[2][N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      d_x_hat[i] = d_y[i] * p[0][i];
      terms[0][i] = d_y[i] * x_hat[i];
      terms[1][i] = d_y[i];
    }
  }
};

}  // namespace
}  // namespace cuda

void scale_shift_fwd_cuda(const ScaleShiftFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "scale_shift_fwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"x_hat", args.x_hat}, {"y", args.y}});
  cuda::check_cuda_operands(kKernel,
                            {{"gain", args.gain}, {"bias", args.bias, Operand::Presence::kOptional}});
  cuda::with_cuda_type(dtype, [&](auto type) {
    const cuda::Affine function{cuda::any_floats(args.gain), cuda::any_floats(args.bias)};
    cuda::launch_rows<decltype(type)>(args.x_hat, args.y, args.T, args.C, function,
                                      {args.gain.data, args.bias.data}, stream);
  });
}

void scale_shift_bwd_cuda(const ScaleShiftBwdArgs& args, const int32_t* accumulate, CudaStream stream) {
  constexpr const char* kKernel = "scale_shift_bwd_cuda";
  const DType dtype =
      cuda::cuda_type_of(kKernel, {{"d_y", args.d_y}, {"x_hat", args.x_hat}, {"d_x_hat", args.d_x_hat}});
  cuda::check_cuda_operands(kKernel, {{"gain", args.gain}});
  check_column_sum(kKernel, {"d_gain", args.d_gain}, args.scratch);
  check_column_sum(kKernel, {"d_bias", args.d_bias, Operand::Presence::kOptional}, args.scratch);
  cuda::with_cuda_type(dtype, [&](auto type) {
    cuda::launch_column_sums<decltype(type)>(
        args.d_y, args.x_hat, args.d_x_hat, args.scratch, args.T, args.C, args.C,
        cuda::AffineBwd{cuda::any_floats(args.gain)},
        {{cuda::any_floats_out(args.d_gain), cuda::any_floats_out(args.d_bias)}},
        cuda::add_flag(accumulate, args.accumulate), {args.gain.data}, stream);
  });
}

}  // namespace plimsoll
