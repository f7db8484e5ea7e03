#include "kernels/element_wise/activation.h"

#include "kernels/element_wise/cuda/flat.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// Functors that the kernels apply to each element. The forward functors take x; the backward functors take y as the first argument and d_y
// as the second.
struct TanhFwd {
  static __device__ float of(float x, float) { return tanhf(x); }
};
struct TanhBwd {
  static __device__ float of(float y, float d_y) { return d_y * fmaf(-y, y, 1.0f); }
};
// Computes ReLU. The comparison is false for NaN, so that the result is NaN as well.
struct ReluFwd {
  static __device__ float of(float x, float) { return x < 0.0f ? 0.0f : x; }
};
struct ReluBwd {
  static __device__ float of(float y, float d_y) { return y > 0.0f ? d_y : 0.0f; }
};

template <class Form>
struct Activation {
  __device__ void begin() {}
  __device__ bool reads_a() const { return true; }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&other)[N], int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = Form::of(x[i], other[i]);
  }
};

template <class Form>
void launch_fwd(const char* kernel, const ActivationFwdArgs& args, CudaStream stream) {
  const DType dtype = cuda_type_of(kernel, {{"x", args.x}, {"y", args.y}});
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    launch_flat<T, T, T>(args.x, {}, args.y, args.n, Activation<Form>{}, stream);
  });
}

template <class Form>
void launch_bwd(const char* kernel, const ActivationBwdArgs& args, CudaStream stream) {
  const DType dtype = cuda_type_of(kernel, {{"y", args.y}, {"d_y", args.d_y}, {"d_x", args.d_x}});
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    launch_flat<T, T, T>(args.y, args.d_y, args.d_x, args.n, Activation<Form>{}, stream);
  });
}

}  // namespace
}  // namespace cuda

void tanh_fwd_cuda(const ActivationFwdArgs& args, CudaStream stream) {
  cuda::launch_fwd<cuda::TanhFwd>("tanh_fwd_cuda", args, stream);
}

void tanh_bwd_cuda(const ActivationBwdArgs& args, CudaStream stream) {
  cuda::launch_bwd<cuda::TanhBwd>("tanh_bwd_cuda", args, stream);
}

void relu_fwd_cuda(const ActivationFwdArgs& args, CudaStream stream) {
  cuda::launch_fwd<cuda::ReluFwd>("relu_fwd_cuda", args, stream);
}

void relu_bwd_cuda(const ActivationBwdArgs& args, CudaStream stream) {
  cuda::launch_bwd<cuda::ReluBwd>("relu_bwd_cuda", args, stream);
}

}  // namespace plimsoll
