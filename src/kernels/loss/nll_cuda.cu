#include "kernels/loss/nll.h"

#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct NllRows {
  const int32_t* labels = nullptr;
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  double smoothing = 0.0;
};

template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads) nll_fwd_kernel(const T* y, const NllRows a, double* losses) {
  __shared__ double sum_slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int32_t label = a.labels[row];
  double loss = 0.0;
  if (label >= 0) {  // All threads of the row have the same `label`, so they take the same branch.
    const T* log_p = y + row * a.num_classes;
    float of_label[1];
    load_floats<T, 1>(log_p + label, of_label);
    loss = -(1.0 - a.smoothing) * static_cast<double>(of_label[0]);
    if (a.smoothing > 0.0) {
      double sum = 0.0;
      for (int64_t k = threadIdx.x; k < a.num_classes; k += blockDim.x) {
        float value[1];
        load_floats<T, 1>(log_p + k, value);
        sum += static_cast<double>(value[0]);
      }
      sum = block_sum(sum, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x) / 32, sum_slots);
      loss -= a.smoothing / static_cast<double>(a.num_classes) * sum;
    }
  }
  if (threadIdx.x == 0) losses[row] = loss;
}

template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    nll_bwd_kernel(T* d_y, const NllRows a, Scalar denominator, Scalar d_loss) {
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int32_t label = a.labels[row];
  const double scale = -d_loss.get() / denominator.get();
  const double off_target = a.smoothing / static_cast<double>(a.num_classes);
  const float elsewhere = label >= 0 ? static_cast<float>(off_target * scale) : 0.0f;
  const auto at_label = static_cast<float>((1.0 - a.smoothing + off_target) * scale);
  for (int64_t k = threadIdx.x * N; k < a.num_classes; k += blockDim.x * N) {
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = k + i == label ? at_label : elsewhere;
    store_floats<T, N>(d_y + row * a.num_classes + k, values);
  }
}

}  // namespace
}  // namespace cuda

void nll_fwd_cuda(const NllFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "nll_fwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"y", args.y_BK}});
  double* losses = cuda::row_losses(kKernel, args.scratch, args.num_rows);
  const cuda::NllRows rows{args.labels_B.as<int32_t>(), args.num_rows, args.num_classes,
                           args.label_smoothing};
  if (args.num_rows > 0) {
    // Without label smoothing, the loss of a row reads only one number, so each row gets only one warp, however many classes it has.
    const cuda::LossGrid grid =
        cuda::loss_grid(args.num_rows, args.label_smoothing > 0.0 ? args.num_classes : 1);
    cuda::with_cuda_type(dtype, [&](auto type) {
      using T = decltype(type);
      cuda::nll_fwd_kernel<T, 1>
          <<<grid.blocks, grid.block, 0, stream>>>(static_cast<const T*>(args.y_BK.data), rows, losses);
    });
    PLIMSOLL_CHECK_LAUNCH("nll_fwd");
  }
  cuda::add_row_losses(losses, args.num_rows,
                       {.loss = cuda::scalar_of(kKernel, "loss", args.loss),
                        .denominator = cuda::scalar_of(kKernel, "denominator", args.denominator),
                        .adds = args.accumulate == Accumulate::kAdd},
                       stream);
}

void nll_bwd_cuda(const NllBwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "nll_bwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"d_y", args.d_y_BK}});
  if (args.num_rows <= 0) return;
  const cuda::NllRows rows{args.labels_B.as<int32_t>(), args.num_rows, args.num_classes,
                           args.label_smoothing};
  const cuda::Scalar denominator = cuda::scalar_of(kKernel, "denominator", args.denominator);
  const cuda::Scalar d_loss = cuda::scalar_of(kKernel, "d_loss", args.d_loss);
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_classes);
  cuda::with_row_packs(dtype, args.num_classes, {args.d_y_BK.data}, [&](auto type, auto n) {
    using T = decltype(type);
    cuda::nll_bwd_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
        static_cast<T*>(args.d_y_BK.data), rows, denominator, d_loss);
  });
  PLIMSOLL_CHECK_LAUNCH("nll_bwd");
}

}  // namespace plimsoll
