// What the kernels of AdamW and Lion with 8-bit states share: the table of tensors to update, the maps in
// shared memory, and the walk over blocks of 256 elements, a warp to each. A lane takes four elements of
// either half of its block, all operands of both loaded before the first is computed. Only for .cu files.
// Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/optimizer/cuda/split.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll::cuda {

inline constexpr int kEightBitWarps = 8;
inline constexpr int kEightBitThreads = 32 * kEightBitWarps;
inline constexpr int64_t kEightBitChunk = kEightBitWarps * kEightBitBlock;

struct EightBitEntry {
  float* param;
  const void* grad;
  uint8_t* m;
  float* m_absmax;
  uint8_t* v;  // null where the update has no such state
  float* v_absmax;
  void* low;  // null: none
  int64_t count;
  uint32_t first_chunk;
  DType grad_dtype;
  DType low_dtype;
  bool packs;  // whether every address allows packs of four
};

// A copy for each translation unit that uses it: constants of the program's image.
static __device__ const EightBitMap kSignedMap = make_eight_bit_map(EightBitSign::kSigned);
static __device__ const EightBitMap kUnsignedMap = make_eight_bit_map(EightBitSign::kUnsigned);

// One state's numbers and cells in shared memory.
struct SharedMap {
  float numbers[256];
  uint32_t cells[kEightBitCells];

  __device__ __forceinline__ void load(const EightBitMap& map) {
    for (uint32_t i = threadIdx.x; i < 256; i += kEightBitThreads) numbers[i] = map.numbers.data()[i];
    for (uint32_t i = threadIdx.x; i < kEightBitCells; i += kEightBitThreads) cells[i] = map.cells.data()[i];
  }
  // As eight_bit_magnitude.
  __device__ __forceinline__ uint32_t magnitude(float quotient) const {
    const uint32_t bits = __float_as_uint(fabsf(quotient));
    const int cell = static_cast<int>(bits >> 16) - static_cast<int>(kEightBitFirstCell);
    const uint32_t entry = cells[min(max(cell, 0), static_cast<int>(kEightBitCells - 1))];
    return (entry >> 16) + ((bits & 0xffffu) > (entry & 0xffffu) ? 1u : 0u);
  }
  template <EightBitSign kSign>
  __device__ __forceinline__ uint32_t code(float quotient) const {
    const uint32_t size = magnitude(quotient);
    if constexpr (kSign == EightBitSign::kUnsigned) return size;
    return quotient < 0.0f ? 127u - min(size, 127u) : 127u + size;
  }
};

// A warp's block of one state: eight numbers a lane.
template <EightBitSign kSign>
struct StateBlock {
  float x[8];

  __device__ __forceinline__ void load(const SharedMap& map, const uint8_t* codes, float absmax, int half) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(codes);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[4 * half + i] = map.numbers[(word >> (8 * i)) & 0xffu] * absmax;
  }
  __device__ __forceinline__ float largest() const {
    float absmax = 0.0f;
#pragma unroll
    for (float value : x) absmax = fmaxf(absmax, fabsf(value));
    return warp_max(absmax);
  }
  __device__ __forceinline__ void store(const SharedMap& map, uint8_t* codes, float inverse, int half) const {
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= map.code<kSign>(x[4 * half + i] * inverse) << (8 * i);
    *reinterpret_cast<uint32_t*>(codes) = word;
  }
};

__device__ __forceinline__ float inverse_of(float absmax) {
  return absmax >= 0x1p-126f ? 1.0f / absmax : 0.0f;
}

template <int N>
__device__ __forceinline__ void store_low(const EightBitEntry& entry, int64_t i, const float (&p)[N]) {
  if (entry.low == nullptr) return;
  if (entry.low_dtype == DType::kBF16) {
    store_copy<N>(static_cast<__nv_bfloat16*>(entry.low) + i, p);
  } else {
    store_floats<__half, N>(static_cast<__half*>(entry.low) + i, p);
  }
}

// A whole block whose addresses allow packs. Step: step.apply(float& p, float g, float& m, float& v).
template <bool kHasV, class Step>
__device__ __forceinline__ void update_whole_block(const EightBitEntry& entry, int64_t begin,
                                                   const SharedMap* maps, const Step& step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = begin / kEightBitBlock;
  const AnyFloats grad{entry.grad, entry.grad_dtype};
  StateBlock<EightBitSign::kSigned> m;
  StateBlock<EightBitSign::kUnsigned> v;
  float p[2][4], g[2][4];
  const float m_old = entry.m_absmax[block];
  const float v_old = kHasV ? entry.v_absmax[block] : 0.0f;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t i = begin + half * 128 + lane * 4;
    load_floats<float, 4>(entry.param + i, p[half]);
    grad.load<4>(i, g[half]);
    m.load(maps[0], entry.m + i, m_old, half);
    if constexpr (kHasV) v.load(maps[1], entry.v + i, v_old, half);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t i = begin + half * 128 + lane * 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) step.apply(p[half][k], g[half][k], m.x[4 * half + k], v.x[4 * half + k]);
    store_floats<float, 4>(entry.param + i, p[half]);
    store_low<4>(entry, i, p[half]);
  }
  const float m_new = m.largest();
  const float m_inverse = inverse_of(m_new);
  float v_new = 0.0f, v_inverse = 0.0f;
  if constexpr (kHasV) {
    v_new = v.largest();
    v_inverse = inverse_of(v_new);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t i = begin + half * 128 + lane * 4;
    m.store(maps[0], entry.m + i, m_inverse, half);
    if constexpr (kHasV) v.store(maps[1], entry.v + i, v_inverse, half);
  }
  if (lane == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

// The last block of a tensor, or one whose addresses are odd: an element at a time, the states twice, once
// for the largest and once for the codes, so that nothing is kept.
template <bool kHasV, class Step>
__device__ __noinline__ void update_part_block(const EightBitEntry& entry, int64_t begin,
                                               const SharedMap* maps, const Step step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = begin / kEightBitBlock;
  const int64_t end = begin + kEightBitBlock < entry.count ? begin + kEightBitBlock : entry.count;
  const AnyFloats grad{entry.grad, entry.grad_dtype};
  const float m_old = entry.m_absmax[block];
  const float v_old = kHasV ? entry.v_absmax[block] : 0.0f;
  const auto updated = [&](int64_t i, float& p, float& m, float& v) {
    m = maps[0].numbers[entry.m[i]] * m_old;
    v = kHasV ? maps[1].numbers[entry.v[i]] * v_old : 0.0f;
    p = entry.param[i];
    step.apply(p, grad.at(i), m, v);
  };
  float m_new = 0.0f, v_new = 0.0f;
  for (int64_t i = begin + lane; i < end; i += 32) {
    float p, m, v;
    updated(i, p, m, v);
    m_new = fmaxf(m_new, fabsf(m));
    v_new = fmaxf(v_new, v);
  }
  m_new = warp_max(m_new);
  v_new = warp_max(v_new);
  const float m_inverse = inverse_of(m_new);
  const float v_inverse = inverse_of(v_new);
  for (int64_t i = begin + lane; i < end; i += 32) {
    float p[1], m, v;
    updated(i, p[0], m, v);
    entry.param[i] = p[0];
    store_low<1>(entry, i, p);
    entry.m[i] = static_cast<uint8_t>(maps[0].code<EightBitSign::kSigned>(m * m_inverse));
    if constexpr (kHasV) {
      entry.v[i] = static_cast<uint8_t>(maps[1].code<EightBitSign::kUnsigned>(v * v_inverse));
    }
  }
  __syncwarp();  // every lane has read the old ones
  if (lane == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

template <bool kHasV, class Table, class Step>
__device__ __forceinline__ void update_eight_bit(const Table& table, const Step& step, SharedMap* maps) {
  maps[0].load(kSignedMap);
  if constexpr (kHasV) maps[1].load(kUnsignedMap);
  __syncthreads();
  const int64_t warp = threadIdx.x / 32;
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    const EightBitEntry& entry = table.entries[table.find(chunk)];
    const int64_t begin =
        static_cast<int64_t>(chunk - entry.first_chunk) * kEightBitChunk + warp * kEightBitBlock;
    if (begin >= entry.count) continue;
    if (entry.packs && begin + kEightBitBlock <= entry.count) {
      update_whole_block<kHasV>(entry, begin, maps, step);
    } else {
      update_part_block<kHasV>(entry, begin, maps, step);
    }
  }
}

// Checks the tensors of one update and makes its entries.
struct EightBitEntryMaker {
  const char* kernel;
  bool has_v;

  EightBitEntry operator()(const OptimizerTensor& tensor) const {
    check_cuda_operands(kernel, {{"grad", tensor.grad}});
    PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                   "{}: the copy of a parameter is {}, not 16 bits of floating point", kernel,
                   dtype_name(tensor.low.dtype));
    EightBitEntry entry{};
    entry.param = tensor.param.as<float>();
    entry.grad = tensor.grad.data;
    entry.m = tensor.m.as<uint8_t>();
    entry.m_absmax = tensor.m_absmax.as<float>();
    entry.v = has_v ? tensor.v.as<uint8_t>() : nullptr;
    entry.v_absmax = has_v ? tensor.v_absmax.as<float>() : nullptr;
    entry.low = tensor.low.data;
    entry.count = tensor.count;
    entry.grad_dtype = tensor.grad.dtype;
    entry.low_dtype = tensor.low.dtype;
    entry.packs = aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// A grid that fills the card: blocks walk over the chunks.
inline unsigned eight_bit_grid(uint32_t num_chunks) {
  const auto most = static_cast<unsigned>(device_attribute<cudaDevAttrMultiProcessorCount>()) * 8u;
  return num_chunks < most ? num_chunks : most;
}

}  // namespace plimsoll::cuda
