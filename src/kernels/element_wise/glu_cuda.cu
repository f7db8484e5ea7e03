#include "kernels/element_wise/glu.h"

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/gelu.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

// A thread handles N columns of one row of y.
template <class Form, typename T, int N>
__global__ void __launch_bounds__(kThreads)
    glu_fwd_kernel(const T* x, T* y, int64_t packs, int64_t packs_of_row) {
  begin_early_launch();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= packs) return;
  const int64_t t = at / packs_of_row, f = at % packs_of_row * N, F = packs_of_row * N;
  float gate[N], up[N];
  load_floats<T, N>(x + 2 * t * F + f, gate);
  load_floats<T, N>(x + 2 * t * F + F + f, up);
#pragma unroll
  for (int i = 0; i < N; ++i) up[i] *= Form::value(gate[i]);
  store_floats<T, N>(y + t * F + f, up);
}

// Computes d_x. d_x may be the same array as x, because a thread reads its elements of x before it writes them.
template <class Form, typename T, int N>
__global__ void __launch_bounds__(kThreads)
    glu_bwd_kernel(const T* x, const T* d_y, T* d_x, int64_t packs, int64_t packs_of_row) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= packs) return;
  const int64_t t = at / packs_of_row, f = at % packs_of_row * N, F = packs_of_row * N;
  float gate[N], up[N], g[N];
  load_floats<T, N>(x + 2 * t * F + f, gate);
  load_floats<T, N>(x + 2 * t * F + F + f, up);
  load_floats<T, N>(d_y + t * F + f, g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    up[i] = g[i] * up[i] * Form::slope(gate[i]);
    g[i] *= Form::value(gate[i]);
  }
  store_floats<T, N>(d_x + 2 * t * F + f, up);
  store_floats<T, N>(d_x + 2 * t * F + F + f, g);
}

// Calls launch(N as an integral constant, number of blocks, number of accesses, accesses per row). An access is a load or store of N
// elements: of 16 bytes if addresses and rows are aligned to 16 bytes, otherwise of a single element.
template <typename T, class Launch>
void launch_packs(int64_t rows, int64_t F, std::initializer_list<const void*> pointers,
                  const Launch& launch) {
  if (rows <= 0 || F <= 0) return;
  const auto with = [&](auto n) {
    constexpr int kN = decltype(n)::value;
    const int64_t packs = rows * (F / kN);
    launch(n, static_cast<unsigned>(ceil_div(packs, kThreads)), packs, F / kN);
  };
  if (F % kPack<T> == 0 && aligned_to_packs(pointers)) {
    with(std::integral_constant<int, kPack<T>>());
  } else {
    with(std::integral_constant<int, 1>());
  }
}

}  // namespace
}  // namespace cuda

void glu_fwd_cuda(const GluFwdArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("glu_fwd_cuda", {{"x", args.x}, {"y", args.y}});
  cuda::with_type_and_form(dtype, args.activation, [&](auto type, auto form) {
    using T = decltype(type);
    cuda::launch_packs<T>(args.T, args.F, {args.x.data, args.y.data},
                          [&](auto n, unsigned blocks, int64_t packs, int64_t packs_of_row) {
                            cuda::launch_early(cuda::glu_fwd_kernel<decltype(form), T, decltype(n)::value>,
                                               {dim3(blocks), dim3(cuda::kThreads)}, stream,
                                               static_cast<const T*>(args.x.data),
                                               static_cast<T*>(args.y.data), packs, packs_of_row);
                          });
  });
}

void glu_bwd_cuda(const GluBwdArgs& args, CudaStream stream) {
  const DType dtype =
      cuda::cuda_type_of("glu_bwd_cuda", {{"x", args.x}, {"d_y", args.d_y}, {"d_x", args.d_x}});
  cuda::with_type_and_form(dtype, args.activation, [&](auto type, auto form) {
    using T = decltype(type);
    cuda::launch_packs<T>(args.T, args.F, {args.x.data, args.d_y.data, args.d_x.data},
                          [&](auto n, unsigned blocks, int64_t packs, int64_t packs_of_row) {
                            cuda::glu_bwd_kernel<decltype(form), T, decltype(n)::value>
                                <<<blocks, cuda::kThreads, 0, stream>>>(
                                    static_cast<const T*>(args.x.data), static_cast<const T*>(args.d_y.data),
                                    static_cast<T*>(args.d_x.data), packs, packs_of_row);
                            PLIMSOLL_CHECK_LAUNCH("glu_bwd");
                          });
  });
}

}  // namespace plimsoll
