#include "kernels/element_wise/cuda/gelu.cuh"

#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/element_wise/cuda/flat.cuh"
#include "kernels/element_wise/cuda/rows.cuh"
#include "kernels/element_wise/gelu.h"

namespace plimsoll {
namespace cuda {
namespace {

template <class Form>
struct Value {
  __device__ void begin() {}
  __device__ bool reads_a() const { return true; }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&)[N], int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = Form::value(x[i]);
  }
};

template <class Form>
struct Slope {
  __device__ void begin() {}
  __device__ bool reads_a() const { return true; }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&d_y)[N], int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = d_y[i] * Form::slope(x[i]);
  }
};

template <class Form>
struct BiasValue {
  AnyFloats bias;

  template <int N>
  __device__ void prepare(int64_t c, float (&p)[2][N]) const {
    bias.load<N>(c, p[0]);
  }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&p)[2][N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = Form::value(x[i] + p[0][i]);
  }
};

template <class Form>
struct BiasSlope {
  static constexpr int kInputs = 2;
  static constexpr int kSums = 1;
  static constexpr bool kHasOutput = true;
  AnyFloats bias;

  template <int N>
  __device__ void prepare(int64_t c, float (&p)[2][N]) const {
    bias.load<N>(c, p[0]);
  }
  template <int N>
  __device__ void apply(const float (&h)[N], const float (&d_y)[N], const float (&p)[2][N], float (&d_h)[N],
                        float (&terms)[1][N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      d_h[i] = d_y[i] * Form::slope(h[i] + p[0][i]);
      terms[0][i] = d_h[i];
    }
  }
};

}  // namespace
}  // namespace cuda

void gelu_fwd_cuda(const GeluFwdArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("gelu_fwd_cuda", {{"x", args.x}, {"y", args.y}});
  cuda::with_type_and_form(dtype, args.activation, [&](auto type, auto form) {
    using T = decltype(type);
    cuda::launch_flat<T, T, T>(args.x, {}, args.y, args.n, cuda::Value<decltype(form)>{}, stream);
  });
}

void gelu_bwd_cuda(const GeluBwdArgs& args, CudaStream stream) {
  const DType dtype =
      cuda::cuda_type_of("gelu_bwd_cuda", {{"x", args.x}, {"d_y", args.d_y}, {"d_x", args.d_x}});
  cuda::with_type_and_form(dtype, args.activation, [&](auto type, auto form) {
    using T = decltype(type);
    cuda::launch_flat<T, T, T>(args.x, args.d_y, args.d_x, args.n, cuda::Slope<decltype(form)>{}, stream);
  });
}

void bias_gelu_fwd_cuda(const BiasGeluFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "bias_gelu_fwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"h", args.h}, {"y", args.y}});
  cuda::check_cuda_operands(kKernel, {{"b", args.b}});
  cuda::with_type_and_form(dtype, args.activation, [&](auto type, auto form) {
    const cuda::BiasValue<decltype(form)> function{cuda::any_floats(args.b)};
    cuda::launch_rows<decltype(type)>(args.h, args.y, args.T, args.C, function, {args.b.data}, stream);
  });
}

void bias_gelu_bwd_cuda(const BiasGeluBwdArgs& args, const int32_t* accumulate, CudaStream stream) {
  constexpr const char* kKernel = "bias_gelu_bwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"h", args.h}, {"d_y", args.d_y}, {"d_h", args.d_h}});
  cuda::check_cuda_operands(kKernel, {{"b", args.b}});
  check_column_sum(kKernel, {"d_b", args.d_b}, args.scratch);
  cuda::with_type_and_form(dtype, args.activation, [&](auto type, auto form) {
    const cuda::BiasSlope<decltype(form)> function{cuda::any_floats(args.b)};
    cuda::launch_column_sums<decltype(type)>(args.h, args.d_y, args.d_h, args.scratch, args.T, args.C, args.C,
                                             function, {{cuda::any_floats_out(args.d_b)}},
                                             cuda::add_flag(accumulate, args.accumulate), {args.b.data},
                                             stream);
  });
}

}  // namespace plimsoll
