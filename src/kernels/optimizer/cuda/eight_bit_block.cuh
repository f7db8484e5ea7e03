// Updates one quantization block of 256 elements with states in 8 bits by one warp. Each lane updates two groups of four elements of
// the block. Only for .cu files. Thread-safe: no state.
#pragma once

#include <type_traits>

#include "kernels/optimizer/cuda/eight_bit_map.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/split.cuh"

namespace plimsoll::cuda {

struct EightBitEntry {
  void* param;
  const void* grad;
  uint8_t* m;
  float* m_absmax;
  uint8_t* v;  // the codes of a state; null if the optimizer has no such state
  float* v_absmax;
  void* low;  // the 16-bit copy of the parameter; null if there is none
  int64_t count;
  // Index of the tensor's first element within its parameter, from which the random numbers are derived.
  int64_t first;
  uint32_t first_chunk;
  DType grad_dtype;
  DType low_dtype;
  // True if every array is aligned for accesses of four elements, and `first` is a multiple of 8, the number of random numbers in a Philox
  // block.
  bool packs;
};

// The positions, in a quantization block, of the two groups of four consecutive parameters that a lane updates. They depend on the type of
// the parameters. In bf16 the groups are adjacent, because eight numbers are one access of 16 bytes, and one Philox block gives eight
// random values. In fp32 four numbers already have 16 bytes, and each half of the quantization block contains one of the groups.
template <class Param>
struct LaneLayout {
  static constexpr bool kSideBySide = sizeof(Param) == 2;
  static constexpr int64_t kDistance = kSideBySide ? 4 : kEightBitBlock / 2;

  // Returns the index of the first element of the first of the lane's two groups.
  static __device__ __forceinline__ int64_t first(uint32_t block) {
    return int64_t{block} * kEightBitBlock + threadIdx.x % 32 * (kSideBySide ? 8 : 4);
  }
  template <class T>
  static __device__ __forceinline__ void load(const T* from, Raw<T, 4> (&fours)[2]) {
    if constexpr (kSideBySide) {
      const Raw<T, 8> both = load_raw<T, 8>(from);
#pragma unroll
      for (int n = 0; n < Raw<T, 8>::kWords; ++n) {
        fours[n / Raw<T, 4>::kWords].word[n % Raw<T, 4>::kWords] = both.word[n];
      }
    } else {
      fours[0] = load_raw<T, 4>(from);
      fours[1] = load_raw<T, 4>(from + kDistance);
    }
  }
  // Stores with a streaming hint, because the cache need not keep values that are not read again before the next step.
  template <class T>
  static __device__ __forceinline__ void store(T* to, const Raw<T, 4> (&fours)[2]) {
    if constexpr (kSideBySide) {
      Raw<T, 8> both;
#pragma unroll
      for (int n = 0; n < Raw<T, 8>::kWords; ++n) {
        both.word[n] = fours[n / Raw<T, 4>::kWords].word[n % Raw<T, 4>::kWords];
      }
      stream_raw<T, 8>(to, both);
    } else {
      stream_raw<T, 4>(to, fours[0]);
      stream_raw<T, 4>(to + kDistance, fours[1]);
    }
  }

 private:
  template <class T, int N>
  static __device__ __forceinline__ void stream_raw(T* to, const Raw<T, N>& raw) {
    if constexpr (Raw<T, N>::kWords == 1) {
      __stcs(reinterpret_cast<uint32_t*>(to), raw.word[0]);
    } else if constexpr (Raw<T, N>::kWords == 2) {
      __stcs(reinterpret_cast<uint2*>(to), make_uint2(raw.word[0], raw.word[1]));
    } else {
      static_assert(Raw<T, N>::kWords == 4);
      __stcs(reinterpret_cast<uint4*>(to), make_uint4(raw.word[0], raw.word[1], raw.word[2], raw.word[3]));
    }
  }
};

template <int N>
__device__ __forceinline__ void store_low(const EightBitEntry& entry, int64_t i, const float (&p)[N]) {
  if (entry.low == nullptr) return;
  if (entry.low_dtype == DType::kBF16) {
    store_copy<N>(static_cast<__nv_bfloat16*>(entry.low) + i, p);
  } else {
    store_floats<__half, N>(static_cast<__half*>(entry.low) + i, p);
  }
}

// The gradients that a lane loads, not yet converted to fp32. Grad is their type, or void if the tensors have different types.
template <class Grad>
struct RawGrads {
  Raw<Grad, 4> fours[2];

  template <class Layout>
  __device__ __forceinline__ void load(const EightBitEntry& entry, int64_t i) {
    Layout::load(static_cast<const Grad*>(entry.grad) + i, fours);
  }
  __device__ __forceinline__ void unpack_as(DType, float (&g)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) unpack<Grad, 4>(fours[half], g[half]);
  }
};
template <>
struct RawGrads<void> {
  uint32_t words[2][4];

  template <class Layout>
  __device__ __forceinline__ void load(const EightBitEntry& entry, int64_t i) {
    if (entry.grad_dtype == DType::kF32) {
      load_as<Layout, float>(entry, i);
    } else {
      load_as<Layout, __half>(entry, i);
    }
  }
  __device__ __forceinline__ void unpack_as(DType dtype, float (&g)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t(&x)[4] = words[half];
      if (dtype == DType::kF32) {
        unpack<float, 4>({{x[0], x[1], x[2], x[3]}}, g[half]);
      } else if (dtype == DType::kBF16) {
        unpack<__nv_bfloat16, 4>({{x[0], x[1]}}, g[half]);
      } else {
        unpack<__half, 4>({{x[0], x[1]}}, g[half]);
      }
    }
  }

 private:
  template <class Layout, class T>
  __device__ __forceinline__ void load_as(const EightBitEntry& entry, int64_t i) {
    Raw<T, 4> fours[2];
    Layout::load(static_cast<const T*>(entry.grad) + i, fours);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < Raw<T, 4>::kWords; ++n) words[half][n] = fours[half].word[n];
    }
  }
};

// Returns updated parameters in the form in which they are stored. Param is float, or __nv_bfloat16 for a parameter that is stored only in
// bf16, which is rounded stochastically with the random numbers `noise`.
template <class Param, int N>
__device__ __forceinline__ Raw<Param, N> packed_parameter(const float (&p)[N],
                                                          const uint32_t (&noise)[(N + 1) / 2]) {
  if constexpr (std::is_same_v<Param, float>) {
    return pack<float, N>(p);
  } else {
    return rounded_stochastically<N>(p, noise);
  }
}

// The operands that a lane loads for a whole quantization block, not yet converted to fp32. Converting them at once would wait for the
// loads and take more registers.
template <class Param, class Grad, bool kHasV>
struct BlockOperands {
  using Layout = LaneLayout<Param>;
  Raw<Param, 4> p[2];
  RawGrads<Grad> g;
  Raw<uint8_t, 4> m[2], v[2];
  float m_absmax, v_absmax;

  __device__ __forceinline__ void load(const EightBitEntry& entry, uint32_t block) {
    const int64_t i = Layout::first(block);
    m_absmax = entry.m_absmax[block];
    if constexpr (kHasV) v_absmax = entry.v_absmax[block];
    Layout::load(static_cast<const Param*>(entry.param) + i, p);
    Layout::load(static_cast<const uint8_t*>(entry.m) + i, m);
    if constexpr (kHasV) Layout::load(static_cast<const uint8_t*>(entry.v) + i, v);
    g.template load<Layout>(entry, i);
  }
};

// The operands of a lane for a whole quantization block after their conversion to fp32.
template <bool kHasV>
struct BlockNumbers {
  uint32_t noise[2][2] = {};
  float p[2][4], g[2][4];
  StateBlock<EightBitSign::kSigned> m;
  StateBlock<EightBitSign::kUnsigned> v;

  template <class Param, class Grad>
  __device__ __forceinline__ void unpack_from(const BlockOperands<Param, Grad, kHasV>& raw,
                                              const SharedMap* maps, DType grad_dtype) {
    m.load(maps[0], raw.m, raw.m_absmax);
    if constexpr (kHasV) v.load(maps[1], raw.v, raw.v_absmax);
#pragma unroll
    for (int half = 0; half < 2; ++half) unpack<Param, 4>(raw.p[half], p[half]);
    raw.g.unpack_as(grad_dtype, g);
  }
};

// Updates a whole quantization block that is aligned for accesses of four elements. step.apply(float& p, float g, float& m, float& v) must
// update one element.
template <class Param, bool kHasV, class Step>
__device__ __forceinline__ void update_whole_block(const EightBitEntry& entry, uint32_t block,
                                                   BlockNumbers<kHasV>& x, const SharedMap* maps,
                                                   const Step& step) {
  using Layout = LaneLayout<Param>;
  const int64_t i = Layout::first(block);
  Raw<Param, 4> p[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int k = 0; k < 4; ++k) step.apply(x.p[half][k], x.g[half][k], x.m.x[half][k], x.v.x[half][k]);
    p[half] = packed_parameter<Param, 4>(x.p[half], x.noise[half]);
    if constexpr (std::is_same_v<Param, float>) {
      store_low<4>(entry, i + half * Layout::kDistance, x.p[half]);
    }
  }
  Layout::store(static_cast<Param*>(entry.param) + i, p);
  const float m_new = x.m.largest();
  const float m_inverse = inverse_of(m_new);
  float v_new = 0.0f, v_inverse = 0.0f;
  if constexpr (kHasV) {
    v_new = x.v.largest();
    v_inverse = inverse_of(v_new);
  }
  Raw<uint8_t, 4> m[2], v[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    m[half].word[0] = x.m.codes(maps[0], m_inverse, half);
    if constexpr (kHasV) v[half].word[0] = x.v.codes(maps[1], v_inverse, half);
  }
  Layout::store(entry.m + i, m);
  if constexpr (kHasV) Layout::store(entry.v + i, v);
  if (threadIdx.x % 32 == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

// Updates one element at a time, for the last quantization block of a tensor and for blocks that are not aligned for accesses of four
// elements. The new states are computed twice, once to find the largest magnitude and once to find the codes, so that they need not be
// stored in between.
template <class Param, bool kHasV, class Step>
__device__ __noinline__ void update_part_block(const EightBitEntry& entry, uint32_t block,
                                               const SharedMap* maps, const Step step,
                                               const RandomSite where) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t begin = int64_t{block} * kEightBitBlock;
  const int64_t end = begin + kEightBitBlock < entry.count ? begin + kEightBitBlock : entry.count;
  const AnyFloats grad{entry.grad, entry.grad_dtype};
  const float m_old = entry.m_absmax[block];
  const float v_old = kHasV ? entry.v_absmax[block] : 0.0f;
  const auto updated = [&](int64_t i, float& p, float& m, float& v) {
    m = maps[0].numbers[entry.m[i]] * m_old;
    v = kHasV ? maps[1].numbers[entry.v[i]] * v_old : 0.0f;
    float from[1];
    load_floats<Param, 1>(static_cast<const Param*>(entry.param) + i, from);
    p = from[0];
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
    const uint32_t number[1] = {
        std::is_same_v<Param, float> ? 0u : random_half(where, static_cast<uint64_t>(entry.first + i))};
    store_raw<Param, 1>(static_cast<Param*>(entry.param) + i, packed_parameter<Param, 1>(p, number));
    if constexpr (std::is_same_v<Param, float>) store_low<1>(entry, i, p);
    entry.m[i] = code_of<EightBitSign::kSigned>(maps[0], m, m_inverse);
    if constexpr (kHasV) entry.v[i] = code_of<EightBitSign::kUnsigned>(maps[1], v, v_inverse);
  }
  __syncwarp();  // waits until every lane has read the old absmax
  if (lane == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

}  // namespace plimsoll::cuda
