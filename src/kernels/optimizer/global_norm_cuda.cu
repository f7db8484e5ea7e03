#include "kernels/optimizer/global_norm.h"

#include <algorithm>
#include <climits>

#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 8;   // number of elements whose squares are added in fp32
constexpr int kGroups = 4;  // number of groups of kGroup elements that a thread loads at a time
constexpr int kChunk = kThreads * kGroup * kGroups;
constexpr int kFinishThreads = 1024;

struct NormEntry {
  const void* grad;
  int64_t count;
  uint32_t first_chunk;
  DType dtype;
  bool packs;
};

// The result of a thread block: its sum of squares, and the first tensor of the list in which it found a number that is not finite.
struct NormPartial {
  double sum;
  int64_t first_bad;
};
static_assert(sizeof(NormPartial) * kGlobalNormCudaBlocks == kGlobalNormCudaScratchBytes);
constexpr int64_t kNoneBad = INT64_MAX;

struct ThreadSum {
  double sum = 0.0;
  int64_t first_bad = kNoneBad;

  // Adds the squares of N elements: in fp32 if their sum shows that no square has overflowed or underflowed, otherwise in double.
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

// Loads a group of elements with a streaming hint (__ldcs), because the gradients are not read again while they are in the cache. On an
// H200, the norm of 100 million gradients in bf16 takes 55 us, and 58 us with plain loads.
template <typename T>
__device__ __forceinline__ Raw<T, kGroup> load_once(const T* p) {
  Raw<T, kGroup> raw;
#pragma unroll
  for (int i = 0; i < Raw<T, kGroup>::kWords; i += 4) {
    const uint4 words = __ldcs(reinterpret_cast<const uint4*>(p) + i / 4);
    raw.word[i] = words.x;
    raw.word[i + 1] = words.y;
    raw.word[i + 2] = words.z;
    raw.word[i + 3] = words.w;
  }
  return raw;
}

// Adds the squares of a whole chunk of elements whose address is aligned for wide loads. All loads are issued before the first square is
// computed.
template <typename T>
__device__ __forceinline__ void add_whole(const void* grad, int64_t begin, int64_t tensor, ThreadSum& total) {
  const T* from = static_cast<const T*>(grad) + begin + static_cast<int>(threadIdx.x) * kGroup;
  Raw<T, kGroup> raw[kGroups];
#pragma unroll
  for (int u = 0; u < kGroups; ++u) raw[u] = load_once(from + u * kThreads * kGroup);
#pragma unroll
  for (int u = 0; u < kGroups; ++u) {
    float x[kGroup];
    unpack<T, kGroup>(raw[u], x);
    total.add<kGroup>(x, tensor);
  }
}

template <class Table>
__device__ __forceinline__ void add_chunk(const Table& table, uint32_t chunk, ThreadSum& total) {
  const int index = table.find(chunk);
  const NormEntry& entry = table.entries[index];
  const int64_t tensor = table.first_index + index;
  const int64_t begin = static_cast<int64_t>(chunk - entry.first_chunk) * kChunk;
  if (entry.packs && begin + kChunk <= entry.count) {
    if (entry.dtype == DType::kF32) return add_whole<float>(entry.grad, begin, tensor, total);
    if (entry.dtype == DType::kBF16) return add_whole<__nv_bfloat16>(entry.grad, begin, tensor, total);
    return add_whole<__half>(entry.grad, begin, tensor, total);
  }
  const AnyFloats grad{entry.grad, entry.dtype};
  const int64_t end = begin + kChunk < entry.count ? begin + kChunk : entry.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    float x[1];
    grad.load<1>(i, x);
    total.add<1>(x, tensor);
  }
}

// Stores one partial result per thread block. If the list of tensors needs several launches, the first `there` elements of `partials`
// contain the results of earlier launches, and a block adds its result to the element whose index is the number of the block.
template <class Table>
__global__ void __launch_bounds__(kThreads)
    square_sums_kernel(const __grid_constant__ Table table, NormPartial* partials, uint32_t there) {
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
  NormPartial partial = blockIdx.x < there ? partials[blockIdx.x] : NormPartial{0.0, kNoneBad};
  partial.sum += sum;
  for (const int64_t other : bad) {
    if (other < partial.first_bad) partial.first_bad = other;
  }
  partials[blockIdx.x] = partial;
}

struct NormOutputs {
  Scalar norm;
  OptionalScalar loss;
  Scalar finite;  // the finite flag; its address is null if the caller does not need it
  int64_t* first_bad;
};

__global__ void __launch_bounds__(kFinishThreads)
    global_norm_kernel(const NormPartial* partials, uint32_t num_partials, const NormOutputs outputs) {
  __shared__ double sums[kFinishThreads / 32];
  __shared__ int64_t bad[kFinishThreads / 32];
  double mine = 0.0;
  int64_t first_bad = kNoneBad;
  for (uint32_t i = threadIdx.x; i < num_partials; i += kFinishThreads) {
    mine += partials[i].sum;
    if (partials[i].first_bad < first_bad) first_bad = partials[i].first_bad;
  }
  const double sum = block_sum(mine, static_cast<int>(threadIdx.x), kFinishThreads / 32, sums);
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
  // The sum of squares cannot overflow in double, so it is finite if and only if every gradient is finite.
  if (outputs.finite.data != nullptr) {
    outputs.finite.set(isfinite(sum) && isfinite(outputs.loss.get()) ? 1.0 : 0.0);
  }
  if (outputs.first_bad != nullptr) *outputs.first_bad = first_bad == kNoneBad ? -1 : first_bad;
}

__global__ void clip_coefficient_kernel(Scalar norm, Scalar coefficient, double max_norm,
                                        OptionalScalar loss_scale) {
  const double scale = loss_scale.get();
  const double value = max_norm / (norm.get() / scale + 1e-6);
  // This comparison is false for NaN, so a NaN norm gives a NaN coefficient.
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
  PLIMSOLL_CHECK(static_cast<bool>(args.scratch), "{} needs scratch memory, but has none", kKernel);
  auto* partials = static_cast<cuda::NormPartial*>(args.scratch.data);
  const cuda::NormOutputs outputs{
      .norm = cuda::scalar_of(kKernel, "norm", args.norm),
      .loss = cuda::optional_scalar(kKernel, "loss", args.loss),
      .finite = args.finite ? cuda::scalar_of(kKernel, "finite", args.finite) : cuda::Scalar{},
      .first_bad = args.first_bad ? args.first_bad.as<int64_t>() : nullptr};
  uint32_t num_partials = 0;
  cuda::for_each_table<cuda::NormEntry>(args.tensors, cuda::kChunk, cuda::norm_entry, [&](const auto& table) {
    const uint32_t blocks = std::clamp(table.num_chunks, 1u, static_cast<uint32_t>(kGlobalNormCudaBlocks));
    cuda::square_sums_kernel<<<blocks, cuda::kThreads, 0, stream>>>(table, partials, num_partials);
    PLIMSOLL_CHECK_LAUNCH("square_sums");
    num_partials = std::max(num_partials, blocks);
  });
  cuda::global_norm_kernel<<<1, cuda::kFinishThreads, 0, stream>>>(partials, num_partials, outputs);
  PLIMSOLL_CHECK_LAUNCH("global_norm");
}

void clip_coefficient_cuda(const ClipCoefficientArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "clip_coefficient_cuda";
  PLIMSOLL_CHECK(args.max_norm >= 0.0, "max_norm must not be negative, but is {}", args.max_norm);
  cuda::clip_coefficient_kernel<<<1, 1, 0, stream>>>(
      cuda::scalar_of(kKernel, "norm", args.norm), cuda::scalar_of(kKernel, "coefficient", args.coefficient),
      args.max_norm, cuda::optional_scalar(kKernel, "scale", args.scale));
  PLIMSOLL_CHECK_LAUNCH("clip_coefficient");
}

}  // namespace plimsoll
