// What the kernels of AdamW, Lion, Adagrad and SGD share: the table of tensors to update and the walk over
// it. A thread takes some packs of four elements of a chunk, all operands of them loaded before the first is
// computed. Only for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/split.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll::cuda {

inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdatePacks = 2;
// Elements of a chunk of which a thread takes this many packs.
constexpr int update_chunk_elements(int packs) {
  return kUpdateThreads * packs * 4;
}
inline constexpr int kUpdateChunk = update_chunk_elements(kUpdatePacks);

struct UpdateEntry {
  void* param;  // f32, or bf16 of a split or stochastically rounded parameter
  const void* grad;
  void* m;  // f32, or bf16 where the update takes it; null where it has no such state
  void* v;
  void* low;  // the copy, null: none; the remainder of a split parameter
  int64_t count;
  int64_t first;  // the number of the first element in its parameter: noise is drawn by it
  uint32_t first_chunk;
  DType grad_dtype;
  DType low_dtype;
  bool is_split;
  bool is_bf16;  // and nothing beside it
  bool m_is_bf16, v_is_bf16;
  bool packs;  // whether every address allows packs of four
};

// Whether tensors have states, of which either may still be absent: without them a thread has registers for
// twice as many packs.
enum class Moments : uint8_t { kNone, kSome };

// Four (or one) neighbouring elements of a tensor.
template <int N, Moments kMoments>
struct UpdateValues {
  float p[N], g[N], m[N], v[N];

  __device__ __forceinline__ void load(const UpdateEntry& entry, int64_t i) {
    if (entry.is_bf16) {
      load_floats<__nv_bfloat16, N>(static_cast<const __nv_bfloat16*>(entry.param) + i, p);
    } else if (entry.is_split) {
      load_split<N>(static_cast<const __nv_bfloat16*>(entry.param) + i,
                    static_cast<const __nv_bfloat16*>(entry.low) + i, p);
    } else {
      load_floats<float, N>(static_cast<const float*>(entry.param) + i, p);
    }
    AnyFloats{entry.grad, entry.grad_dtype}.load<N>(i, g);
    if constexpr (kMoments == Moments::kSome) {
      load_moment(entry.m, entry.m_is_bf16, i, m);
      load_moment(entry.v, entry.v_is_bf16, i, v);
    }
  }
  // Element i is the first; `noise` is the tensor's, for what is rounded stochastically.
  __device__ __forceinline__ void store(const UpdateEntry& entry, int64_t i, const Noise& noise) const {
    uint32_t numbers[N] = {};
    if (entry.is_bf16 || entry.v_is_bf16) noise.draw<N>(entry.first + i, numbers);
    if constexpr (kMoments == Moments::kSome) store_moments(entry, i, numbers);
    if (entry.is_bf16) {
      store_raw<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.param) + i,
                                  rounded_stochastically<N>(p, numbers));
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
                                                const uint32_t (&numbers)[N]) const {
    if (entry.m_is_bf16) {
      store_floats<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.m) + i, m);
    } else if (entry.m != nullptr) {
      store_floats<float, N>(static_cast<float*>(entry.m) + i, m);
    }
    if (entry.v_is_bf16) {
      uint32_t lower[N];
#pragma unroll
      for (int k = 0; k < N; ++k) lower[k] = numbers[k] << 16;
      store_raw<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.v) + i,
                                  rounded_stochastically<N>(v, lower));
    } else if (entry.v != nullptr) {
      store_floats<float, N>(static_cast<float*>(entry.v) + i, v);
    }
  }
  static __device__ __forceinline__ void load_moment(const void* moment, bool is_bf16, int64_t i,
                                                     float (&x)[N]) {
    if (is_bf16) {
      load_floats<__nv_bfloat16, N>(static_cast<const __nv_bfloat16*>(moment) + i, x);
    } else if (moment != nullptr) {
      load_floats<float, N>(static_cast<const float*>(moment) + i, x);
    }
  }
};

// Step: step.apply(float& p, float g, float& m, float& v) updates one element. `noise` is that of the list's
// first tensor; the others' sites follow. Requires: the table's chunks have update_chunk_elements(kPacks).
template <int kPacks = kUpdatePacks, Moments kMoments = Moments::kSome, class Table, class Step>
__device__ __forceinline__ void update_chunk(const Table& table, uint32_t chunk, const Step& step,
                                             Noise noise) {
  constexpr int kChunk = update_chunk_elements(kPacks);
  const int index = table.find(chunk);
  const UpdateEntry& entry = table.entries[index];
  noise.site += static_cast<uint32_t>(table.first_index + index);
  const int64_t begin = static_cast<int64_t>(chunk - entry.first_chunk) * kChunk;
  if (entry.packs && begin + kChunk <= entry.count) {
    UpdateValues<4, kMoments> values[kPacks];
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      values[u].load(entry, begin + (u * kUpdateThreads + static_cast<int>(threadIdx.x)) * 4);
    }
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        step.apply(values[u].p[i], values[u].g[i], values[u].m[i], values[u].v[i]);
      }
      values[u].store(entry, begin + (u * kUpdateThreads + static_cast<int>(threadIdx.x)) * 4, noise);
    }
    return;
  }
  const int64_t end = begin + kChunk < entry.count ? begin + kChunk : entry.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kUpdateThreads) {
    UpdateValues<1, kMoments> values;
    values.load(entry, i);
    step.apply(values.p[0], values.g[0], values.m[0], values.v[0]);
    values.store(entry, i, noise);
  }
}

// Checks the tensors of one update and makes its entries.
struct UpdateEntryMaker {
  const char* kernel;
  bool has_m;
  bool has_v;
  bool takes_bf16_states = false;

  UpdateEntry operator()(const OptimizerTensor& tensor) const {
    check_cuda_operands(kernel, {{"grad", tensor.grad}});
    PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                   "{}: the copy of a parameter is {}, not 16 bits of floating point", kernel,
                   dtype_name(tensor.low.dtype));
    UpdateEntry entry{};
    entry.is_split = static_cast<bool>(tensor.remainder);
    entry.is_bf16 = rounds_stochastically(tensor);
    PLIMSOLL_CHECK(tensor.param.dtype == (entry.is_split || entry.is_bf16 ? DType::kBF16 : DType::kF32),
                   "{}: a {} parameter is {}", kernel, entry.is_split ? "split" : "whole",
                   dtype_name(tensor.param.dtype));
    PLIMSOLL_CHECK(!(entry.is_split || entry.is_bf16) || !tensor.low, "{}: a bf16 parameter with a copy",
                   kernel);
    entry.param = tensor.param.data;
    entry.grad = tensor.grad.data;
    entry.m_is_bf16 = has_m && takes_bf16_states && tensor.m.dtype == DType::kBF16;
    entry.v_is_bf16 = has_v && takes_bf16_states && tensor.v.dtype == DType::kBF16;
    PLIMSOLL_CHECK((!has_m || entry.m_is_bf16 || tensor.m.dtype == DType::kF32) &&
                       (!has_v || entry.v_is_bf16 || tensor.v.dtype == DType::kF32),
                   "{}: states are {} and {}", kernel, dtype_name(tensor.m.dtype),
                   dtype_name(tensor.v.dtype));
    entry.m = has_m ? tensor.m.data : nullptr;
    entry.v = has_v ? tensor.v.data : nullptr;
    entry.low = entry.is_split ? tensor.remainder.data : tensor.low.data;
    entry.count = tensor.count;
    entry.first = tensor.first;
    PLIMSOLL_CHECK(tensor.first % 4 == 0, "{}: noise comes four elements at a time, not from {} on", kernel,
                   tensor.first);
    entry.grad_dtype = tensor.grad.dtype;
    entry.low_dtype = tensor.low.dtype;
    entry.packs = aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// A grid that fills the card once: blocks walk over the chunks, and none waits for another's end to begin.
template <class Kernel>
unsigned update_blocks(Kernel kernel, uint32_t num_chunks) {
  int resident = 0;
  PLIMSOLL_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kUpdateThreads, 0));
  const auto most = static_cast<unsigned>(device_attribute<cudaDevAttrMultiProcessorCount>()) *
                    static_cast<unsigned>(resident);
  return num_chunks < most ? num_chunks : most;
}

}  // namespace plimsoll::cuda
