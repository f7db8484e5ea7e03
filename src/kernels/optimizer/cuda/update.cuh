// What the kernels of AdamW and SGD share: the table of tensors to update and the walk over it. A thread
// takes two packs of four elements of a chunk, all operands of both loaded before the first is computed. Only
// for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll::cuda {

inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdatePacks = 2;
inline constexpr int kUpdateChunk = kUpdateThreads * kUpdatePacks * 4;

struct UpdateEntry {
  float* param;
  const void* grad;
  float* m;  // null where the update has no such state
  float* v;
  void* low;  // null: none
  int64_t count;
  uint32_t first_chunk;
  DType grad_dtype;
  DType low_dtype;
  bool packs;  // whether every address allows packs of four
};

// Four (or one) neighbouring elements of a tensor.
template <int N>
struct UpdateValues {
  float p[N], g[N], m[N], v[N];

  __device__ __forceinline__ void load(const UpdateEntry& entry, int64_t i) {
    load_floats<float, N>(entry.param + i, p);
    AnyFloats{entry.grad, entry.grad_dtype}.load<N>(i, g);
    if (entry.m != nullptr) load_floats<float, N>(entry.m + i, m);
    if (entry.v != nullptr) load_floats<float, N>(entry.v + i, v);
  }
  __device__ __forceinline__ void store(const UpdateEntry& entry, int64_t i) const {
    store_floats<float, N>(entry.param + i, p);
    if (entry.m != nullptr) store_floats<float, N>(entry.m + i, m);
    if (entry.v != nullptr) store_floats<float, N>(entry.v + i, v);
    if (entry.low == nullptr) return;
    if (entry.low_dtype == DType::kBF16) {
      store_floats<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(entry.low) + i, p);
    } else {
      store_floats<__half, N>(static_cast<__half*>(entry.low) + i, p);
    }
  }
};

// Step: step.apply(float& p, float g, float& m, float& v) updates one element.
template <class Table, class Step>
__device__ __forceinline__ void update_chunk(const Table& table, uint32_t chunk, const Step& step) {
  const UpdateEntry& entry = table.entries[table.find(chunk)];
  const int64_t begin = static_cast<int64_t>(chunk - entry.first_chunk) * kUpdateChunk;
  if (entry.packs && begin + kUpdateChunk <= entry.count) {
    UpdateValues<4> values[kUpdatePacks];
#pragma unroll
    for (int u = 0; u < kUpdatePacks; ++u) {
      values[u].load(entry, begin + (u * kUpdateThreads + static_cast<int>(threadIdx.x)) * 4);
    }
#pragma unroll
    for (int u = 0; u < kUpdatePacks; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        step.apply(values[u].p[i], values[u].g[i], values[u].m[i], values[u].v[i]);
      }
      values[u].store(entry, begin + (u * kUpdateThreads + static_cast<int>(threadIdx.x)) * 4);
    }
    return;
  }
  const int64_t end = begin + kUpdateChunk < entry.count ? begin + kUpdateChunk : entry.count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kUpdateThreads) {
    UpdateValues<1> values;
    values.load(entry, i);
    step.apply(values.p[0], values.g[0], values.m[0], values.v[0]);
    values.store(entry, i);
  }
}

// Checks the tensors of one update and makes its entries.
struct UpdateEntryMaker {
  const char* kernel;
  bool has_m;
  bool has_v;

  UpdateEntry operator()(const OptimizerTensor& tensor) const {
    check_cuda_operands(kernel, {{"grad", tensor.grad}});
    PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                   "{}: the copy of a parameter is {}, not 16 bits of floating point", kernel,
                   dtype_name(tensor.low.dtype));
    UpdateEntry entry{};
    entry.param = tensor.param.as<float>();
    entry.grad = tensor.grad.data;
    entry.m = has_m ? tensor.m.as<float>() : nullptr;
    entry.v = has_v ? tensor.v.as<float>() : nullptr;
    entry.low = tensor.low.data;
    entry.count = tensor.count;
    entry.grad_dtype = tensor.grad.dtype;
    entry.low_dtype = tensor.low.dtype;
    entry.packs = aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// A grid that fills the card: blocks walk over the chunks.
inline unsigned update_blocks(uint32_t num_chunks) {
  const auto most = static_cast<unsigned>(device_attribute<cudaDevAttrMultiProcessorCount>()) * 8u;
  return num_chunks < most ? num_chunks : most;
}

}  // namespace plimsoll::cuda
