#include "kernels/loss/softmax.h"

#include "kernels/loss/cuda/row_exponentials.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// Computes log-softmax of a row. y may be the same array as x, because the whole row is read before its first element is written.
template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    log_softmax_fwd_kernel(const T* x, T* y, int64_t num_rows, int64_t num_classes) {
  __shared__ RowExponentials slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= num_rows) return;
  x += row * num_classes;
  y += row * num_classes;
  const RowExponentials all = row_exponentials<T, N>(x, num_classes, slots);
  const auto log_sum = static_cast<float>(log(all.sum));
  for (int64_t k = threadIdx.x * N; k < num_classes; k += blockDim.x * N) {
    float values[N];
    load_floats<T, N>(x + k, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = values[i] - all.reference - log_sum;
    store_floats<T, N>(y + k, values);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    log_softmax_bwd_kernel(const T* y, const T* d_y, T* d_x, int64_t num_rows, int64_t num_classes) {
  __shared__ double sum_slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= num_rows) return;
  y += row * num_classes;
  d_y += row * num_classes;
  d_x += row * num_classes;
  const auto sum =
      static_cast<float>(row_sum<T, N>(d_y, num_classes, sum_slots, [](float value) { return value; }));
  for (int64_t k = threadIdx.x * N; k < num_classes; k += blockDim.x * N) {
    float log_p[N], gradient[N];
    load_floats<T, N>(y + k, log_p);
    load_floats<T, N>(d_y + k, gradient);
#pragma unroll
    for (int i = 0; i < N; ++i) gradient[i] = fmaf(-expf(log_p[i]), sum, gradient[i]);
    store_floats<T, N>(d_x + k, gradient);
  }
}

}  // namespace
}  // namespace cuda

void log_softmax_fwd_cuda(const SoftmaxFwdArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("log_softmax_fwd_cuda", {{"x", args.x_BK}, {"y", args.y_BK}});
  if (args.num_rows <= 0) return;
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_classes);
  cuda::with_row_packs(dtype, args.num_classes, {args.x_BK.data, args.y_BK.data}, [&](auto type, auto n) {
    using T = decltype(type);
    cuda::log_softmax_fwd_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
        static_cast<const T*>(args.x_BK.data), static_cast<T*>(args.y_BK.data), args.num_rows,
        args.num_classes);
  });
  PLIMSOLL_CHECK_LAUNCH("log_softmax_fwd");
}

void log_softmax_bwd_cuda(const SoftmaxBwdArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("log_softmax_bwd_cuda",
                                         {{"y", args.y_BK}, {"d_y", args.d_y_BK}, {"d_x", args.d_x_BK}});
  if (args.num_rows <= 0) return;
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_classes);
  cuda::with_row_packs(
      dtype, args.num_classes, {args.y_BK.data, args.d_y_BK.data, args.d_x_BK.data}, [&](auto type, auto n) {
        using T = decltype(type);
        cuda::log_softmax_bwd_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
            static_cast<const T*>(args.y_BK.data), static_cast<const T*>(args.d_y_BK.data),
            static_cast<T*>(args.d_x_BK.data), args.num_rows, args.num_classes);
      });
  PLIMSOLL_CHECK_LAUNCH("log_softmax_bwd");
}

}  // namespace plimsoll
