#include "kernels/element_wise/add.h"

#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/element_wise/cuda/flat.cuh"
#include "kernels/element_wise/cuda/rows.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// A functor that computes a + b, or returns b if the flag `add` is not set.
struct Sum {
  AddFlag add;
  bool both = false;

  __device__ void begin() { both = add.get(); }
  __device__ bool reads_a() const { return both; }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&other)[N], int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = both ? x[i] + other[i] : other[i];
  }
};

struct BiasSum {
  AnyFloats bias;

  template <int N>
  __device__ void prepare(int64_t c, float (&p)[2][N]) const {
    bias.load<N>(c, p[0]);
  }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&p)[2][N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += p[0][i];
  }
};

struct ColumnSum {
  static constexpr int kInputs = 1;
  static constexpr int kSums = 1;
  static constexpr bool kHasOutput = false;

  template <int N>
  __device__ void prepare(int64_t, float (&)[2][N]) const {}
  template <int N>
  __device__ void apply(const float (&d_y)[N], const float (&)[N], const float (&)[2][N], float (&)[N],
                        float (&terms)[1][N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) terms[0][i] = d_y[i];
  }
};

void launch_sum(const char* kernel, const AddFwdArgs& args, const AddFlag& add, CudaStream stream) {
  const DType dtype = cuda_type_of(kernel, {{"a", args.a}, {"c", args.c}});
  check_cuda_operands(kernel, {{"b", args.b}});
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (args.b.dtype == dtype) {
      launch_flat<T, T, T>(args.a, args.b, args.c, args.n, Sum{add}, stream);
    } else if constexpr (std::is_same_v<T, float>) {
      with_cuda_type(args.b.dtype, [&](auto other) {
        launch_flat<T, decltype(other), T>(args.a, args.b, args.c, args.n, Sum{add}, stream);
      });
    } else {
      PLIMSOLL_CHECK(args.b.dtype == DType::kF32,
                     "{}: b must be f32 or have the type of the other operands, but {} is added to {}",
                     kernel, dtype_name(args.b.dtype), dtype_name(dtype));
      launch_flat<T, float, T>(args.a, args.b, args.c, args.n, Sum{add}, stream);
    }
  });
}

}  // namespace
}  // namespace cuda

void add_fwd_cuda(const AddFwdArgs& args, CudaStream stream) {
  cuda::launch_sum("add_fwd_cuda", args, {nullptr, true}, stream);
}

void accumulate_cuda(const AccumulateArgs& args, const int32_t* accumulate, CudaStream stream) {
  cuda::launch_sum("accumulate_cuda", args, {accumulate, false}, stream);
}

void bias_add_fwd_cuda(const BiasAddFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "bias_add_fwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"x", args.x}, {"y", args.y}});
  cuda::check_cuda_operands(kKernel, {{"b", args.b}});
  cuda::with_cuda_type(dtype, [&](auto type) {
    cuda::launch_rows<decltype(type)>(args.x, args.y, args.T, args.C, cuda::BiasSum{cuda::any_floats(args.b)},
                                      {args.b.data}, stream);
  });
}

void bias_grad_cuda(const BiasGradArgs& args, const int32_t* accumulate, CudaStream stream) {
  constexpr const char* kKernel = "bias_grad_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"d_y", args.d_y}});
  check_column_sum(kKernel, {"d_b", args.d_b}, args.scratch);
  cuda::with_cuda_type(dtype, [&](auto type) {
    cuda::launch_column_sums<decltype(type)>(args.d_y, {}, {}, args.scratch, args.T, args.C,
                                             args.row_stride == 0 ? args.C : args.row_stride,
                                             cuda::ColumnSum{}, {{cuda::any_floats_out(args.d_b)}},
                                             cuda::add_flag(accumulate, args.accumulate), {}, stream);
  });
}

}  // namespace plimsoll
