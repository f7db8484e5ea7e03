// The loop that the kernels of AdamW, Lion, Adagrad and SGD share: it processes the chunks of a table of tensors, distributed over thread
// blocks. A thread updates a few groups ("packs") of four adjacent elements of a chunk, and loads all of their operands before it
// computes the first group. Only for .cu files. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/split.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll::cuda {

inline constexpr int kUpdateThreads = 256;

struct UpdateEntry {
  void* param;  // the parameter: f32, or bf16 if it is split or rounded stochastically
  const void* grad;
  // The first moment: f32, or bf16 if the kernel supports that; null if the optimizer does not have it.
  void* m;
  void* v;
  // The remainder of a split parameter, or else the 16-bit copy of the parameter; null if there is neither.
  void* low;
  int64_t count;
  // Index of the tensor's first element within its parameter, from which the random numbers are derived.
  int64_t first;
  uint32_t first_chunk;
  DType grad_dtype;
  DType low_dtype;
  bool is_split;
  bool is_bf16;  // true if the parameter is stored only in bf16
  bool m_is_bf16, v_is_bf16;
  // True if every array is aligned for accesses of four elements and, if random numbers are drawn, `first` is a multiple of 8, the number
  // of random numbers in a Philox block.
  bool packs;
};

// States whether the optimizer has states. kSome: it has a first moment m, a second moment v, or both.
enum class Moments : uint8_t { kNone, kSome };

// Return the number of groups of four elements that a thread updates in a chunk, and the number of elements of a chunk. Without moments
// there are fewer bytes per element to read and write, so chunks are longer: with two groups per thread, finding the next chunk would take
// longer than these accesses.
constexpr int update_packs(Moments moments) {
  return moments == Moments::kNone ? 4 : 2;
}
constexpr int update_chunk_elements(Moments moments) {
  return kUpdateThreads * update_packs(moments) * 4;
}

// The types of the tensors of a launch. kAny: any types. kBf16Alone: parameters only in bf16, gradients in bf16 and states in fp32. The
// kernel for kBf16Alone has no branches for other types; with them, instructions rather than memory would limit its speed.
enum class UpdateTypes : uint8_t { kAny, kBf16Alone };

// The operands of four adjacent elements of a tensor, or of one element, as floats.
template <int N, Moments kMoments, UpdateTypes kTypes>
struct UpdateValues {
  static constexpr bool kAlone = kTypes == UpdateTypes::kBf16Alone;
  static constexpr int kNoiseWords = (N + 1) / 2;
  float p[N], g[N], m[N], v[N];

  static __device__ __forceinline__ bool rounds_parameter(const UpdateEntry& entry) {
    return kAlone || entry.is_bf16;
  }
  static __device__ __forceinline__ bool rounds_v(const UpdateEntry& entry) {
    return !kAlone && kMoments == Moments::kSome && entry.v_is_bf16;
  }
  __device__ __forceinline__ void load(const UpdateEntry& entry, int64_t i) {
    if (rounds_parameter(entry)) {
      load_floats<__nv_bfloat16, N>(static_cast<const __nv_bfloat16*>(entry.param) + i, p);
    } else if (entry.is_split) {
      load_split<N>(static_cast<const __nv_bfloat16*>(entry.param) + i,
                    static_cast<const __nv_bfloat16*>(entry.low) + i, p);
    } else {
      load_floats<float, N>(static_cast<const float*>(entry.param) + i, p);
    }
    AnyFloats{entry.grad, kAlone ? DType::kBF16 : entry.grad_dtype}.load<N>(i, g);
    if constexpr (kMoments == Moments::kSome) {
      load_moment(entry.m, entry.m_is_bf16, i, m);
      load_moment(entry.v, entry.v_is_bf16, i, v);
    }
  }
  // Stores the updated operands; the first one is element i of the tensor. `noise` draws the random numbers for tensors that are rounded
  // stochastically.
  __device__ __forceinline__ void store(const UpdateEntry& entry, int64_t i,
                                        const uint32_t (&p_noise)[kNoiseWords],
                                        const uint32_t (&v_noise)[kNoiseWords]) const {
    if constexpr (kMoments == Moments::kSome) store_moments(entry, i, v_noise);
    if (rounds_parameter(entry)) {
      store_raw<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.param) + i,
                                  rounded_stochastically<N>(p, p_noise));
      return;
    }
    if (entry.is_split) {
      store_split<N>(static_cast<__nv_bfloat16*>(entry.param) + i, static_cast<__nv_bfloat16*>(entry.low) + i,
                     p);
      return;
    }
    store_floats<float, N>(static_cast<float*>(entry.param) + i, p);
    if (entry.low == nullptr) return;
    if (entry.low_dtype == DType::kBF16) {
      store_copy<N>(static_cast<__nv_bfloat16*>(entry.low) + i, p);
    } else {
      store_floats<__half, N>(static_cast<__half*>(entry.low) + i, p);
    }
  }

 private:
  __device__ __forceinline__ void store_moments(const UpdateEntry& entry, int64_t i,
                                                const uint32_t (&v_noise)[kNoiseWords]) const {
    if (!kAlone && entry.m_is_bf16) {
      store_floats<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.m) + i, m);
    } else if (entry.m != nullptr) {
      store_floats<float, N>(static_cast<float*>(entry.m) + i, m);
    }
    if (rounds_v(entry)) {
      store_raw<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.v) + i,
                                  rounded_stochastically<N>(v, v_noise));
    } else if (entry.v != nullptr) {
      store_floats<float, N>(static_cast<float*>(entry.v) + i, v);
    }
  }
  static __device__ __forceinline__ void load_moment(const void* moment, bool is_bf16, int64_t i,
                                                     float (&x)[N]) {
    if (!kAlone && is_bf16) {
      load_floats<__nv_bfloat16, N>(static_cast<const __nv_bfloat16*>(moment) + i, x);
    } else if (moment != nullptr) {
      load_floats<float, N>(static_cast<const float*>(moment) + i, x);
    }
  }
};

// Updates a chunk of a tensor with a thread block. step.apply(float& p, float g, float& m, float& v) must update one element. `noise` draws
// the random numbers of the tensor.
template <UpdateTypes kTypes, Moments kMoments, class Step>
__device__ __forceinline__ void update_chunk(const UpdateEntry& entry, uint32_t chunk, const Step& step,
                                             const Noise& noise) {
  constexpr int kPacks = update_packs(kMoments);
  constexpr int kChunk = update_chunk_elements(kMoments);
  const int64_t begin = static_cast<int64_t>(chunk - entry.first_chunk) * kChunk;
  if (entry.packs && begin + kChunk <= entry.count) {
    using Values = UpdateValues<4, kMoments, kTypes>;
    constexpr int64_t kDistance = kUpdateThreads * 4;
    const int64_t first = begin + static_cast<int>(threadIdx.x) * 4;
    Values values[kPacks];
#pragma unroll
    for (int u = 0; u < kPacks; ++u) values[u].load(entry, first + u * kDistance);
    uint32_t p_noise[kPacks][2] = {}, v_noise[kPacks][2] = {};
    if (Values::rounds_parameter(entry)) noise.draw_packs<kPacks>(entry.first + first, kDistance, p_noise);
    if (Values::rounds_v(entry)) {
      noise.of_second_moment().draw_packs<kPacks>(entry.first + first, kDistance, v_noise);
    }
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        step.apply(values[u].p[i], values[u].g[i], values[u].m[i], values[u].v[i]);
      }
      values[u].store(entry, first + u * kDistance, p_noise[u], v_noise[u]);
    }
    return;
  }
  const int64_t end = begin + kChunk < entry.count ? begin + kChunk : entry.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kUpdateThreads) {
    using Values = UpdateValues<1, kMoments, kTypes>;
    Values values;
    values.load(entry, i);
    step.apply(values.p[0], values.g[0], values.m[0], values.v[0]);
    uint32_t p_noise[1] = {}, v_noise[1] = {};
    if (Values::rounds_parameter(entry)) noise.draw<1>(entry.first + i, p_noise);
    if (Values::rounds_v(entry)) noise.of_second_moment().draw<1>(entry.first + i, v_noise);
    values.store(entry, i, p_noise, v_noise);
  }
}

// Updates all chunks of the tensors of a table, distributed over the thread blocks of the launch. `noise` draws the random numbers of the
// first tensor of the list; the site in their key increases by one per tensor.
template <UpdateTypes kTypes, Moments kMoments = Moments::kSome, class Table, class Step>
__device__ __forceinline__ void update_tensors(const Table& table, const Step& step, Noise noise) {
  // Copies the number of the first chunk of each tensor to shared memory. A search in the table itself, which is a kernel parameter, would
  // read more bytes than the cache of kernel parameters holds.
  __shared__ uint32_t first_chunks[Table::kCapacity];
  for (int i = static_cast<int>(threadIdx.x); i < table.num_entries; i += kUpdateThreads) {
    first_chunks[i] = table.entries[i].first_chunk;
  }
  __syncthreads();
  const uint32_t first_site = noise.site + static_cast<uint32_t>(table.first_index);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    const int index = last_at_most([&](int i) { return first_chunks[i]; }, table.num_entries, chunk);
    noise.site = first_site + static_cast<uint32_t>(index);
    update_chunk<kTypes, kMoments>(table.entries[index], chunk, step, noise);
  }
}

// Checks a tensor of an update and returns its entry in the table that is passed to the kernel.
struct UpdateEntryMaker {
  const char* kernel;
  bool has_m;
  bool has_v;
  bool takes_bf16_states = false;

  UpdateEntry operator()(const OptimizerTensor& tensor) const {
    check_cuda_operands(kernel, {{"grad", tensor.grad}});
    PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                   "{}: the low-precision copy of a parameter must be bf16 or f16, but is {}", kernel,
                   dtype_name(tensor.low.dtype));
    UpdateEntry entry{};
    entry.is_split = static_cast<bool>(tensor.remainder);
    entry.is_bf16 = rounds_stochastically(tensor);
    PLIMSOLL_CHECK(tensor.param.dtype == (entry.is_split || entry.is_bf16 ? DType::kBF16 : DType::kF32),
                   "{}: {} must be {}, but is {}", kernel,
                   entry.is_split  ? "a split parameter"
                   : entry.is_bf16 ? "a stochastically rounded parameter"
                                   : "a parameter that is neither split nor rounded stochastically",
                   entry.is_split || entry.is_bf16 ? "bf16" : "f32", dtype_name(tensor.param.dtype));
    PLIMSOLL_CHECK(!(entry.is_split || entry.is_bf16) || !tensor.low,
                   "{}: a bf16 parameter must not have a low-precision copy", kernel);
    entry.param = tensor.param.data;
    entry.grad = tensor.grad.data;
    entry.m_is_bf16 = has_m && takes_bf16_states && tensor.m.dtype == DType::kBF16;
    entry.v_is_bf16 = has_v && takes_bf16_states && tensor.v.dtype == DType::kBF16;
    PLIMSOLL_CHECK((!has_m || entry.m_is_bf16 || tensor.m.dtype == DType::kF32) &&
                       (!has_v || entry.v_is_bf16 || tensor.v.dtype == DType::kF32),
                   "{}: optimizer states must be f32 or bf16, but are {} and {}", kernel,
                   dtype_name(tensor.m.dtype), dtype_name(tensor.v.dtype));
    entry.m = has_m ? tensor.m.data : nullptr;
    entry.v = has_v ? tensor.v.data : nullptr;
    entry.low = entry.is_split ? tensor.remainder.data : tensor.low.data;
    entry.count = tensor.count;
    entry.first = tensor.first;
    entry.grad_dtype = tensor.grad.dtype;
    entry.low_dtype = tensor.low.dtype;
    const bool draws = entry.is_bf16 || entry.v_is_bf16;
    entry.packs = (!draws || tensor.first % 8 == 0) &&
                  aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// Returns the number of thread blocks that can run at the same time on the GPU, or the number of chunks if that is smaller. Each thread
// block processes several chunks, so that no thread block waits until another one ends.
template <class Kernel>
unsigned update_blocks(Kernel kernel, uint32_t num_chunks) {
  int resident = 0;
  PLIMSOLL_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kUpdateThreads, 0));
  const auto most = static_cast<unsigned>(device_attribute<cudaDevAttrMultiProcessorCount>()) *
                    static_cast<unsigned>(resident);
  return num_chunks < most ? num_chunks : most;
}

// Divides the tensors into tables (tensor_table.cuh) and calls launch.operator()<types>(table) for each table that has chunks. `types`
// states whether all tensors of the table have the types of kBf16Alone.
template <Moments kMoments = Moments::kSome, class Launch>
void for_each_update(std::span<const OptimizerTensor> tensors, const UpdateEntryMaker& make,
                     const Launch& launch) {
  for_each_table<UpdateEntry>(tensors, update_chunk_elements(kMoments), make, [&](const auto& table) {
    if (table.num_chunks == 0) return;
    const std::span entries(table.entries, static_cast<size_t>(table.num_entries));
    if (std::ranges::all_of(entries, [](const UpdateEntry& entry) {
          return entry.is_bf16 && entry.grad_dtype == DType::kBF16 && !entry.m_is_bf16 && !entry.v_is_bf16;
        })) {
      launch.template operator()<UpdateTypes::kBf16Alone>(table);
    } else {
      launch.template operator()<UpdateTypes::kAny>(table);
    }
  });
}

}  // namespace plimsoll::cuda
