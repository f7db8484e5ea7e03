#include "kernels/loss/class_sums.h"

#include "kernels/loss/cuda/row_exponentials.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// The logits of one rank: their rows and columns, and the labels.
struct ClassRows {
  const int32_t* labels = nullptr;
  int64_t num_rows = 0;
  int64_t stride = 0;       // distance in elements between two rows of logits
  int64_t num_columns = 0;  // number of columns of the gradients of the logits, including padding
  ClassShare share;
  ClassColumns columns;
};

// Returns the maximum of `value` over the threads that process a row, ignoring NaNs. The requirements are those of block_sum
// (element_wise/cuda/reductions.cuh).
__device__ __forceinline__ float block_max(float value, float* slots) {
  const uint32_t warps = blockDim.x / 32;
  value = warp_max(value);
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  float most = slots[0];
  for (uint32_t warp = 1; warp < warps; ++warp) most = fmaxf(most, slots[warp]);
  return most;
}

// The largest logit of a row, and the number of classes that precede class `label` if classes are sorted by descending logits. These are
// the classes whose logit is above `limit`, the logit of the label, and those with a smaller number and an equal logit.
struct BeatenLabel {
  float most = -INFINITY;
  float better = 0.0f;
};
template <typename T, int N>
__device__ __forceinline__ BeatenLabel compare_with_label(const T* x, int64_t count, int64_t label,
                                                          float limit) {
  BeatenLabel own;
  for (int64_t k = threadIdx.x * N; k < count; k += blockDim.x * N) {
    float values[N];
    load_floats<T, N>(x + k, values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (k + i >= count) continue;
      own.most = fmaxf(own.most, values[i]);
      own.better += values[i] > limit || (values[i] == limit && k + i < label) ? 1.0f : 0.0f;
    }
  }
  return own;
}

template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    class_sums_kernel(const T* logits, const __grid_constant__ ClassRows a, float* all_sums) {
  __shared__ RowExponentials row_slots[kLossWarps];
  __shared__ double sum_slots[kLossWarps];
  __shared__ float most_slots[kLossWarps], better_slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int64_t label = a.labels[row];
  float* sums = all_sums + row * a.columns.size();
  if (threadIdx.x == 0) {
    for (int64_t s = 0; s < a.columns.size(); ++s) sums[s] = 0.0f;
  }
  if (label < 0) return;  // All threads of the row have the same `label`, so they take the same branch.
  const T* x = logits + row * a.stride;
  const bool has_label = a.share.has(label);
  float label_logit[1] = {0.0f};
  if (has_label) load_floats<T, 1>(x + (label - a.share.first), label_logit);
  const RowExponentials all = row_exponentials<T, N>(x, a.share.count, row_slots);
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32;
  double logit_sum = 0.0;
  if (a.columns.smooths) {
    for (int64_t k = threadIdx.x; k < a.share.count; k += blockDim.x) {
      float value[1];
      load_floats<T, 1>(x + k, value);
      logit_sum += static_cast<double>(value[0]);
    }
    logit_sum = block_sum(logit_sum, thread, warps, sum_slots);
  }
  BeatenLabel beaten;
  if (a.columns.counts) {
    beaten = compare_with_label<T, N>(x, a.share.count, label - a.share.first, label_logit[0]);
    beaten.most = block_max(beaten.most, most_slots);
    beaten.better = block_sum(beaten.better, thread, warps, better_slots);
  }
  if (threadIdx.x > 0) return;
  sums[a.columns.log_sum(a.share.rank)] =
      a.share.count == 0 ? -INFINITY : static_cast<float>(static_cast<double>(all.reference) + log(all.sum));
  sums[a.columns.label_logit()] = label_logit[0];
  if (a.columns.smooths) sums[a.columns.logit_sum()] = static_cast<float>(logit_sum);
  if (!a.columns.counts) return;
  sums[a.columns.largest(a.share.rank)] = beaten.most;
  const bool is_largest = has_label && label_logit[0] == label_logit[0] && beaten.better == 0.0f;
  sums[a.columns.label_is_largest()] = is_largest ? 1.0f : 0.0f;
}

// Computes d_logits of a row. d_logits may be the logits, because the whole row, including the label's logit, is read before the first
// element is written.
template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    class_sums_bwd_kernel(const T* logits, T* d_logits, const __grid_constant__ ClassRows a,
                          const float* all_d_sums) {
  __shared__ RowExponentials slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int64_t label = a.labels[row];
  const int64_t count = label < 0 ? 0 : a.share.count;
  const T* x = logits + row * a.stride;
  T* d_x = d_logits + row * a.stride;
  const float* d_sums = all_d_sums + row * a.columns.size();
  const bool has_label = a.share.has(label);
  const int64_t own_label = has_label ? label - a.share.first : 0;
  float label_logit[1] = {0.0f};
  if (has_label) load_floats<T, 1>(x + own_label, label_logit);
  const RowExponentials all = row_exponentials<T, N>(x, count, slots);
  const auto d_log_sum = static_cast<double>(d_sums[a.columns.log_sum(a.share.rank)]);
  const float factor = static_cast<float>(d_log_sum / all.sum);
  const float shift = a.columns.smooths ? d_sums[a.columns.logit_sum()] : 0.0f;
  for (uint32_t first = threadIdx.x * N; first < a.num_columns; first += kRowBatch * blockDim.x * N) {
    Raw<T, N> raw[kRowBatch];
    load_batch<T, N>(x, static_cast<uint32_t>(count), first, raw);
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const uint32_t k = first + static_cast<uint32_t>(u) * blockDim.x * N;
      if (k >= a.num_columns) continue;
      float values[N];
      unpack<T, N>(raw[u], values);
#pragma unroll
      for (int i = 0; i < N; ++i)
        values[i] = k + i < count ? fmaf(exp_to_1(values[i] - all.reference), factor, shift) : 0.0f;
      store_floats<T, N>(d_x + k, values);
    }
  }
  // The gradient at the label was stored by the loop above. The same thread now overwrites it with the gradient computed in double, so the
  // two stores are executed in this order.
  if (has_label && threadIdx.x == static_cast<uint32_t>(own_label) / N % blockDim.x) {
    const double p = exp(static_cast<double>(label_logit[0]) - static_cast<double>(all.reference)) / all.sum;
    const double of_label = static_cast<double>(d_sums[a.columns.label_logit()]);
    const float at_label[1] = {static_cast<float>(p * d_log_sum + of_label + static_cast<double>(shift))};
    store_floats<T, 1>(d_x + own_label, at_label);
  }
}

inline constexpr int kSumsThreads = 256;

// Returns log Z, the logarithm of the sum of exponentials over the classes of all ranks, computed from one row of class sums.
__device__ __forceinline__ double log_sum_of_ranks(const float* sums, const ClassColumns& columns) {
  float most = -FLT_MAX;
  for (int64_t r = 0; r < columns.ranks; ++r) most = fmaxf(most, sums[columns.log_sum(r)]);
  double sum = 0.0;
  for (int64_t r = 0; r < columns.ranks; ++r)
    sum += exp(static_cast<double>(sums[columns.log_sum(r)]) - static_cast<double>(most));
  return static_cast<double>(most) + log(sum);
}

// Returns true if the label has the largest logit of all ranks. The sums of the label's rank state whether it has the largest logit of that
// rank; if so, the function compares its logit with the largest logits of the other ranks.
__device__ __forceinline__ bool predicts_label(const float* sums, const ClassColumns& columns, int64_t own) {
  if (sums[columns.label_is_largest()] == 0.0f) return false;
  const float limit = sums[columns.label_logit()];
  for (int64_t r = 0; r < columns.ranks; ++r) {
    const float other = sums[columns.largest(r)];
    if (r < own ? other >= limit : r > own && other > limit) return false;
  }
  return true;
}

// The parameters of the kernels that compute the loss, or its gradient, from the class sums (class_sums.h).
struct SumsLoss {
  const int32_t* labels = nullptr;
  int64_t num_rows = 0;
  double num_classes = 0.0;
  int64_t rank_classes = 0;
  double smoothing = 0.0;
  double z_coefficient = 0.0;
  ClassColumns columns;
};
template <class Args>
SumsLoss sums_loss_of(const Args& args) {
  return {.labels = args.labels_B.template as<int32_t>(),
          .num_rows = args.num_rows,
          .num_classes = static_cast<double>(args.num_classes),
          .smoothing = args.label_smoothing,
          .z_coefficient = args.z_coefficient,
          .columns = args.columns};
}

__global__ void set_no_row_correct_kernel(int32_t* count) {
  *count = 0;
}

__global__ void __launch_bounds__(kSumsThreads)
    class_sums_loss_kernel(const float* all_sums, const __grid_constant__ SumsLoss a, double* losses,
                           double* z_losses, int32_t* num_correct) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kSumsThreads + threadIdx.x;
  if (row >= a.num_rows) return;
  const int64_t label = a.labels[row];
  double loss = 0.0, z_loss = 0.0;
  if (label >= 0) {
    const float* sums = all_sums + row * a.columns.size();
    const double log_z = log_sum_of_ranks(sums, a.columns);
    z_loss = a.z_coefficient * log_z * log_z;
    loss = (1.0 - a.smoothing) * (log_z - static_cast<double>(sums[a.columns.label_logit()])) + z_loss;
    if (a.columns.smooths)
      loss += a.smoothing * (log_z - static_cast<double>(sums[a.columns.logit_sum()]) / a.num_classes);
    // The order of these additions does not matter, because they add integers.
    if (num_correct != nullptr && predicts_label(sums, a.columns, label / a.rank_classes))
      atomicAdd(num_correct, 1);
  }
  losses[row] = loss;
  if (z_losses != nullptr) z_losses[row] = z_loss;
}

__global__ void __launch_bounds__(kSumsThreads)
    class_sums_loss_bwd_kernel(const float* all_sums, const __grid_constant__ SumsLoss a, Scalar denominator,
                               Scalar d_loss, float* all_d_sums) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kSumsThreads + threadIdx.x;
  if (row >= a.num_rows) return;
  const float* sums = all_sums + row * a.columns.size();
  float* d_sums = all_d_sums + row * a.columns.size();
  for (int64_t s = 0; s < a.columns.size(); ++s) d_sums[s] = 0.0f;
  if (a.labels[row] < 0) return;
  const double scale = d_loss.get() / denominator.get();
  const double log_z = log_sum_of_ranks(sums, a.columns);
  const double of_z = (1.0 + 2.0 * a.z_coefficient * log_z) * scale;
  for (int64_t r = 0; r < a.columns.ranks; ++r) {
    const int64_t at = a.columns.log_sum(r);
    d_sums[at] = static_cast<float>(exp(static_cast<double>(sums[at]) - log_z) * of_z);
  }
  d_sums[a.columns.label_logit()] = static_cast<float>(-(1.0 - a.smoothing) * scale);
  if (a.columns.smooths)
    d_sums[a.columns.logit_sum()] = static_cast<float>(-a.smoothing / a.num_classes * scale);
}

template <class Args>
ClassRows class_rows_of(const Args& args) {
  return {.labels = args.labels_B.template as<int32_t>(),
          .num_rows = args.num_rows,
          .stride = args.row_stride,
          .share = args.share,
          .columns = args.columns};
}

}  // namespace
}  // namespace cuda

void class_sums_cuda(const ClassSumsArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("class_sums_cuda", {{"logits", args.logits_BK}});
  if (args.num_rows <= 0) return;
  const cuda::ClassRows rows = cuda::class_rows_of(args);
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.share.count);
  cuda::with_row_packs(dtype, rows.stride, {args.logits_BK.data}, [&](auto type, auto n) {
    using T = decltype(type);
    cuda::class_sums_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
        static_cast<const T*>(args.logits_BK.data), rows, args.sums_BS.as<float>());
  });
  PLIMSOLL_CHECK_LAUNCH("class_sums");
}

void class_sums_bwd_cuda(const ClassSumsBwdArgs& args, CudaStream stream) {
  const DType dtype =
      cuda::cuda_type_of("class_sums_bwd_cuda", {{"logits", args.logits_BK}, {"d_logits", args.d_logits_BK}});
  if (args.num_rows <= 0) return;
  cuda::ClassRows rows = cuda::class_rows_of(args);
  rows.num_columns = args.num_columns;
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_columns);
  cuda::with_row_packs(
      dtype, rows.stride, {args.logits_BK.data, args.d_logits_BK.data}, [&](auto type, auto n) {
        using T = decltype(type);
        cuda::class_sums_bwd_kernel<T, decltype(n)::value><<<grid.blocks, grid.block, 0, stream>>>(
            static_cast<const T*>(args.logits_BK.data), static_cast<T*>(args.d_logits_BK.data), rows,
            args.d_sums_BS.as<float>());
      });
  PLIMSOLL_CHECK_LAUNCH("class_sums_bwd");
}

void class_sums_loss_cuda(const ClassSumsLossArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "class_sums_loss_cuda";
  double* losses = cuda::row_losses(kKernel, args.scratch, args.num_rows);
  double* z_losses = args.z_loss ? losses + args.num_rows : nullptr;
  int32_t* num_correct = args.num_correct ? args.num_correct.as<int32_t>() : nullptr;
  if (num_correct != nullptr) {
    PLIMSOLL_CHECK(args.columns.counts,
                   "counting correct predictions needs class sums whose `columns.counts` is set");
    cuda::set_no_row_correct_kernel<<<1, 1, 0, stream>>>(num_correct);
    PLIMSOLL_CHECK_LAUNCH("class_sums_loss_zero");
  }
  cuda::SumsLoss form = cuda::sums_loss_of(args);
  form.rank_classes = args.rank_classes;
  if (args.num_rows > 0) {
    const auto blocks = static_cast<unsigned>(cuda::ceil_div(args.num_rows, cuda::kSumsThreads));
    cuda::class_sums_loss_kernel<<<blocks, cuda::kSumsThreads, 0, stream>>>(args.sums_BS.as<float>(), form,
                                                                            losses, z_losses, num_correct);
    PLIMSOLL_CHECK_LAUNCH("class_sums_loss");
  }
  const auto add = [&](const double* rows, const View& loss) {
    cuda::add_row_losses(rows, args.num_rows,
                         {.loss = cuda::scalar_of(kKernel, "loss", loss),
                          .denominator = cuda::scalar_of(kKernel, "denominator", args.denominator)},
                         stream);
  };
  add(losses, args.loss);
  if (args.z_loss) add(z_losses, args.z_loss);
}

void class_sums_loss_bwd_cuda(const ClassSumsLossBwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "class_sums_loss_bwd_cuda";
  if (args.num_rows <= 0) return;
  const auto blocks = static_cast<unsigned>(cuda::ceil_div(args.num_rows, cuda::kSumsThreads));
  cuda::class_sums_loss_bwd_kernel<<<blocks, cuda::kSumsThreads, 0, stream>>>(
      args.sums_BS.as<float>(), cuda::sums_loss_of(args),
      cuda::scalar_of(kKernel, "denominator", args.denominator),
      cuda::scalar_of(kKernel, "d_loss", args.d_loss), args.d_sums_BS.as<float>());
  PLIMSOLL_CHECK_LAUNCH("class_sums_loss_bwd");
}

}  // namespace plimsoll
