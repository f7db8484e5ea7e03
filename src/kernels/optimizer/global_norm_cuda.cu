#include "kernels/optimizer/global_norm_cuda.h"

#include <climits>

#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 8;   // elements whose squares are added in fp32
constexpr int kGroups = 2;  // that a thread loads at once
constexpr int kChunk = kThreads * kGroup * kGroups;
constexpr int kBlocks = static_cast<int>(kGlobalNormCudaBlocks);

struct NormEntry {
  const void* grad;
  int64_t count;
  uint32_t first_chunk;
  DType dtype;
  bool packs;
};

// What a block leaves: its sum of squares, and the first tensor of the list in which it met a number that is
// not finite.
struct NormPartial {
  double sum;
  int64_t first_bad;
};
static_assert(sizeof(NormPartial) * kGlobalNormCudaBlocks == kGlobalNormCudaScratchBytes);
constexpr int64_t kNoneBad = INT64_MAX;

struct ThreadSum {
  double sum = 0.0;
  int64_t first_bad = kNoneBad;

  // Squares of numbers within these limits neither overflow nor vanish beside the others in fp32.
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t tensor) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) squares = fmaf(x[i], x[i], squares);
    if (squares >= 0x1p-80f && squares <= 0x1p120f) {
      sum += static_cast<double>(squares);
    } else {
      add_slowly<N>(x, tensor);
    }
  }
  template <int N>
  __device__ __forceinline__ void add_slowly(const float (&x)[N], int64_t tensor) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (x[i] == 0.0f) continue;
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      if (!isfinite(x[i]) && tensor < first_bad) first_bad = tensor;
    }
  }
};

template <class Table>
__device__ __forceinline__ void add_chunk(const Table& table, uint32_t chunk, ThreadSum& total) {
  const int index = table.find(chunk);
  const NormEntry& entry = table.entries[index];
  const int64_t tensor = table.first_index + index;
  const AnyFloats grad{entry.grad, entry.dtype};
  const int64_t begin = static_cast<int64_t>(chunk - entry.first_chunk) * kChunk;
  if (entry.packs && begin + kChunk <= entry.count) {
    float x[kGroups][kGroup];
#pragma unroll
    for (int u = 0; u < kGroups; ++u) {
      grad.load<kGroup>(begin + (u * kThreads + static_cast<int>(threadIdx.x)) * kGroup, x[u]);
    }
#pragma unroll
    for (int u = 0; u < kGroups; ++u) total.add<kGroup>(x[u], tensor);
    return;
  }
  const int64_t end = begin + kChunk < entry.count ? begin + kChunk : entry.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    float x[1];
    grad.load<1>(i, x);
    total.add<1>(x, tensor);
  }
}

// Every block leaves a partial result; later launches of a long list add to it.
template <class Table>
__global__ void __launch_bounds__(kThreads)
    square_sums_kernel(const __grid_constant__ Table table, NormPartial* partials, bool adds) {
  __shared__ double sums[kThreads / 32];
  __shared__ int64_t bad[kThreads / 32];
  ThreadSum total;
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    add_chunk(table, chunk, total);
  }
  const double sum = block_sum(total.sum, static_cast<int>(threadIdx.x), kThreads / 32, sums);
  for (int distance = 16; distance > 0; distance /= 2) {
    const int64_t other = __shfl_xor_sync(kWholeWarp, total.first_bad, distance);
    if (other < total.first_bad) total.first_bad = other;
  }
  if (threadIdx.x % 32 == 0) bad[threadIdx.x / 32] = total.first_bad;
  __syncthreads();
  if (threadIdx.x > 0) return;
  NormPartial partial = adds ? partials[blockIdx.x] : NormPartial{0.0, kNoneBad};
  partial.sum += sum;
  for (const int64_t other : bad) {
    if (other < partial.first_bad) partial.first_bad = other;
  }
  partials[blockIdx.x] = partial;
}

struct NormOutputs {
  Scalar norm;
  OptionalScalar loss;
  Scalar finite;  // null data where nobody asks
  int64_t* first_bad;
};

__global__ void __launch_bounds__(kBlocks)
    global_norm_kernel(const NormPartial* partials, const NormOutputs outputs) {
  __shared__ double sums[kBlocks / 32];
  __shared__ int64_t bad[kBlocks / 32];
  const NormPartial mine = partials[threadIdx.x];
  const double sum = block_sum(mine.sum, static_cast<int>(threadIdx.x), kBlocks / 32, sums);
  int64_t first_bad = mine.first_bad;
  for (int distance = 16; distance > 0; distance /= 2) {
    const int64_t other = __shfl_xor_sync(kWholeWarp, first_bad, distance);
    if (other < first_bad) first_bad = other;
  }
  if (threadIdx.x % 32 == 0) bad[threadIdx.x / 32] = first_bad;
  __syncthreads();
  if (threadIdx.x > 0) return;
  outputs.norm.set(sqrt(sum));
  for (const int64_t other : bad) {
    if (other < first_bad) first_bad = other;
  }
  // No sum of finite squares overflows: it is finite exactly where every gradient is.
  if (outputs.finite.data != nullptr) {
    outputs.finite.set(isfinite(sum) && isfinite(outputs.loss.get()) ? 1.0 : 0.0);
  }
  if (outputs.first_bad != nullptr) *outputs.first_bad = first_bad == kNoneBad ? -1 : first_bad;
}

__global__ void clip_coefficient_kernel(Scalar norm, Scalar coefficient, double max_norm,
                                        OptionalScalar loss_scale) {
  const double scale = loss_scale.get();
  const double value = max_norm / (norm.get() / scale + 1e-6);
  // A comparison that is false for NaN, so that a NaN norm stays visible.
  const double clamped = value > 1.0 ? 1.0 : value;
  coefficient.set((max_norm == 0.0 ? 1.0 : clamped) / scale);
}

NormEntry norm_entry(const OptimizerTensor& tensor) {
  check_cuda_operands("global_norm_cuda", {{"grad", tensor.grad}});
  NormEntry entry{};
  entry.grad = tensor.grad.data;
  entry.count = tensor.count;
  entry.dtype = tensor.grad.dtype;
  entry.packs = aligned_to_packs({tensor.grad.data});
  return entry;
}

}  // namespace
}  // namespace cuda

void global_norm_cuda(const GlobalNormArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "global_norm_cuda";
  PLIMSOLL_CHECK(static_cast<bool>(args.scratch), "{}: the scratch is missing", kKernel);
  auto* partials = static_cast<cuda::NormPartial*>(args.scratch.data);
  const cuda::NormOutputs outputs{
      .norm = cuda::scalar_of(kKernel, "norm", args.norm),
      .loss = cuda::optional_scalar(kKernel, "loss", args.loss),
      .finite = args.finite ? cuda::scalar_of(kKernel, "finite", args.finite) : cuda::Scalar{},
      .first_bad = args.first_bad ? args.first_bad.as<int64_t>() : nullptr};
  cuda::for_each_table<cuda::NormEntry>(args.tensors, cuda::kChunk, cuda::norm_entry, [&](const auto& table) {
    cuda::square_sums_kernel<<<cuda::kBlocks, cuda::kThreads, 0, stream>>>(table, partials,
                                                                           table.first_index > 0);
    PLIMSOLL_CHECK_LAUNCH("square_sums");
  });
  cuda::global_norm_kernel<<<1, cuda::kBlocks, 0, stream>>>(partials, outputs);
  PLIMSOLL_CHECK_LAUNCH("global_norm");
}

void clip_coefficient_cuda(const ClipCoefficientArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "clip_coefficient_cuda";
  PLIMSOLL_CHECK(args.max_norm >= 0.0, "max_norm is {}", args.max_norm);
  cuda::clip_coefficient_kernel<<<1, 1, 0, stream>>>(
      cuda::scalar_of(kKernel, "norm", args.norm), cuda::scalar_of(kKernel, "coefficient", args.coefficient),
      args.max_norm, cuda::optional_scalar(kKernel, "scale", args.scale));
  PLIMSOLL_CHECK_LAUNCH("clip_coefficient");
}

}  // namespace plimsoll
