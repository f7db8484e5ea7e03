#include "kernels/loss/count_correct.h"

#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct CountedRows {
  const int32_t* labels = nullptr;
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  int64_t stride = 0;  // distance in elements between two rows of logits
};

__global__ void set_zero_kernel(int32_t* count) {
  *count = 0;
}

template <typename T, int N>
__global__ void __launch_bounds__(kLossThreads)
    count_correct_kernel(const T* logits, const CountedRows a, int32_t* count) {
  __shared__ float slots[kLossWarps];
  const int64_t row = loss_row();
  if (row >= a.num_rows) return;
  const int32_t label = a.labels[row];
  if (label < 0) return;  // All threads of the row have the same `label`, so they take the same branch.
  const T* x = logits + row * a.stride;
  float at_label[1];
  load_floats<T, 1>(x + label, at_label);
  const float limit = at_label[0];
  // Counts the classes whose logit is above the label's logit, and those with a smaller number and an equal logit. If the label's logit is
  // NaN, the count starts at one, so that the row is not correct.
  float better = limit == limit ? 0.0f : 1.0f;
  for (int64_t k = threadIdx.x * N; k < a.num_classes; k += blockDim.x * N) {
    float values[N];
    load_floats<T, N>(x + k, values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const bool beats =
          k + i < a.num_classes && (values[i] > limit || (values[i] == limit && k + i < label));
      better += beats ? 1.0f : 0.0f;
    }
  }
  better = block_sum(better, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x) / 32, slots);
  // The order of these additions does not matter, because they add integers.
  if (threadIdx.x == 0 && better == 0.0f) atomicAdd(count, 1);
}

}  // namespace
}  // namespace cuda

void count_correct_cuda(const CountCorrectArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "count_correct_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"logits", args.logits_BK}});
  auto* count = args.count.as<int32_t>();
  if (args.accumulate == Accumulate::kOverwrite) {
    cuda::set_zero_kernel<<<1, 1, 0, stream>>>(count);
    PLIMSOLL_CHECK_LAUNCH("count_correct_zero");
  }
  if (args.num_rows <= 0) return;
  const cuda::CountedRows rows{args.labels_B.as<int32_t>(), args.num_rows, args.num_classes,
                               args.row_stride == 0 ? args.num_classes : args.row_stride};
  const cuda::LossGrid grid = cuda::loss_grid(args.num_rows, args.num_classes);
  cuda::with_row_packs(dtype, rows.stride, {args.logits_BK.data}, [&](auto type, auto n) {
    using T = decltype(type);
    cuda::count_correct_kernel<T, decltype(n)::value>
        <<<grid.blocks, grid.block, 0, stream>>>(static_cast<const T*>(args.logits_BK.data), rows, count);
  });
  PLIMSOLL_CHECK_LAUNCH("count_correct");
}

}  // namespace plimsoll
