#include "kernels/loss/softmax_cross_entropy_cuda.h"

#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct CrossEntropyRows {
  const int32_t* labels = nullptr;
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  double smoothing = 0.0;
};

template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_fwd_kernel(const T* logits, const CrossEntropyRows a, float* row_loss, double* losses) {
  __shared__ float max_slots[kLossWarps];
  __shared__ double sum_slots[2][kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int32_t label = a.labels[row];
  double loss = 0.0;
  if (label >= 0) {  // the same for all threads of the row
    const T* x = logits + row * a.num_classes;
    const float max = row_max<T, N>(x, a.num_classes, max_slots);
    const double sum =
        row_sum<T, N>(x, a.num_classes, sum_slots[0], [max](float value) { return expf(value - max); });
    // Differences with the normalizer are taken in double: nothing cancels in fp32.
    const double normalizer = static_cast<double>(max) + log(sum);
    float label_logit[1];
    load_floats<T, 1>(x + label, label_logit);
    loss = (1.0 - a.smoothing) * (normalizer - static_cast<double>(label_logit[0]));
    if (a.smoothing > 0.0) {
      double differences = 0.0;
      for (int64_t k = threadIdx.x; k < a.num_classes; k += blockDim.x) {
        float value[1];
        load_floats<T, 1>(x + k, value);
        differences += normalizer - static_cast<double>(value[0]);
      }
      differences = block_sum(differences, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x) / 32,
                              sum_slots[1]);
      loss += a.smoothing / static_cast<double>(a.num_classes) * differences;
    }
  }
  if (threadIdx.x > 0) return;
  losses[row] = loss;
  if (row_loss != nullptr) row_loss[row] = static_cast<float>(loss);
}

// d_logits may be the logits: all of a row is read, the label's logit included, before the first is written.
template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_bwd_kernel(const T* logits, T* d_logits, const CrossEntropyRows a, Scalar denominator,
                             Scalar d_loss) {
  __shared__ float max_slots[kLossWarps];
  __shared__ double sum_slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int32_t label = a.labels[row];
  const T* x = logits + row * a.num_classes;
  T* d_x = d_logits + row * a.num_classes;
  if (label < 0) {
    const float zeros[N] = {};
    for (int64_t k = threadIdx.x * N; k < a.num_classes; k += blockDim.x * N) {
      store_floats<T, N>(d_x + k, zeros);
    }
    return;
  }
  float label_logit[1];
  load_floats<T, 1>(x + label, label_logit);
  const float max = row_max<T, N>(x, a.num_classes, max_slots);
  const double sum =
      row_sum<T, N>(x, a.num_classes, sum_slots, [max](float value) { return expf(value - max); });
  const double scale = d_loss.get() / denominator.get();
  const double off_target = a.smoothing / static_cast<double>(a.num_classes);
  const auto inverse = static_cast<float>(1.0 / sum);
  for (int64_t k = threadIdx.x * N; k < a.num_classes; k += blockDim.x * N) {
    float values[N];
    load_floats<T, N>(x + k, values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float p = expf(values[i] - max) * inverse;
      values[i] = (p - static_cast<float>(off_target)) * static_cast<float>(scale);
      if (k + i == label) {
        const double exact = exp(static_cast<double>(label_logit[0]) - static_cast<double>(max)) / sum;
        values[i] = static_cast<float>((exact - (1.0 - a.smoothing) - off_target) * scale);
      }
    }
    store_floats<T, N>(d_x + k, values);
  }
}

}  // namespace
}  // namespace cuda

void softmax_cross_entropy_rows_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "softmax_cross_entropy_rows_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"logits", args.logits_BK}});
  double* losses = cuda::row_losses(kKernel, args.scratch, args.num_rows);
  const cuda::CrossEntropyRows rows{args.labels_B.as<int32_t>(), args.num_rows, args.num_classes,
                                    args.label_smoothing};
  if (args.num_rows <= 0) return;
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_classes);
  cuda::with_row_packs(dtype, args.num_classes, {args.logits_BK.data}, [&](auto type, auto n) {
    using T = decltype(type);
    cuda::cross_entropy_fwd_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
        static_cast<const T*>(args.logits_BK.data), rows,
        args.row_loss_B ? args.row_loss_B.as<float>() : nullptr, losses);
  });
  PLIMSOLL_CHECK_LAUNCH("softmax_cross_entropy_fwd");
}

void softmax_cross_entropy_total_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "softmax_cross_entropy_total_cuda";
  cuda::add_row_losses(cuda::row_losses(kKernel, args.scratch, args.num_rows), args.num_rows,
                       {.loss = cuda::scalar_of(kKernel, "loss", args.loss),
                        .denominator = cuda::scalar_of(kKernel, "denominator", args.denominator),
                        .adds = args.accumulate == Accumulate::kAdd},
                       stream);
}

void softmax_cross_entropy_fwd_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream) {
  softmax_cross_entropy_rows_cuda(args, stream);
  softmax_cross_entropy_total_cuda(args, stream);
}

void softmax_cross_entropy_bwd_cuda(const SoftmaxCrossEntropyBwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "softmax_cross_entropy_bwd_cuda";
  const DType dtype =
      cuda::cuda_type_of(kKernel, {{"logits", args.logits_BK}, {"d_logits", args.d_logits_BK}});
  if (args.num_rows <= 0) return;
  const cuda::CrossEntropyRows rows{args.labels_B.as<int32_t>(), args.num_rows, args.num_classes,
                                    args.label_smoothing};
  const cuda::Scalar denominator = cuda::scalar_of(kKernel, "denominator", args.denominator);
  const cuda::Scalar d_loss = cuda::scalar_of(kKernel, "d_loss", args.d_loss);
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_classes);
  cuda::with_row_packs(
      dtype, args.num_classes, {args.logits_BK.data, args.d_logits_BK.data}, [&](auto type, auto n) {
        using T = decltype(type);
        cuda::cross_entropy_bwd_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
            static_cast<const T*>(args.logits_BK.data), static_cast<T*>(args.d_logits_BK.data), rows,
            denominator, d_loss);
      });
  PLIMSOLL_CHECK_LAUNCH("softmax_cross_entropy_bwd");
}

}  // namespace plimsoll
