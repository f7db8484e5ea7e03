// What the kernels of AdamW, Lion, SGD and Adagrad with 8-bit states share: the table of tensors to update,
// the maps in shared memory, and the walk over blocks of 256 elements, a warp to each. A lane takes two times
// four elements of its block; what it reads of a block it has asked for before it computes the block before.
// Instructions are what these kernels are short of: in the time of an element's bytes, 16 or 10, a
// multiprocessor of an H200 issues 112 or, with weights in bf16 alone, 70; AdamW executes some 70 of the
// latter. Only for .cu files. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/split.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll::cuda {

// A multiprocessor has one block of threads, whose warps take blocks of elements as they come to need them:
// with the work shared out beforehand some warps are done a fifth of the time before others, as those that
// have waited longest go first. As many warps as have registers for what they fetch ahead.
template <bool kHasV>
inline constexpr int kEightBitWarps = kHasV ? 24 : 28;
template <bool kHasV>
inline constexpr int kEightBitThreads = 32 * kEightBitWarps<kHasV>;
// Blocks of elements that follow each other in a multiprocessor's work.
inline constexpr uint32_t kChunkBlocks = 8;
inline constexpr int64_t kEightBitChunk = kChunkBlocks * kEightBitBlock;

struct EightBitEntry {
  void* param;
  const void* grad;
  uint8_t* m;
  float* m_absmax;
  uint8_t* v;  // null where the update has no such state
  float* v_absmax;
  void* low;  // null: none
  int64_t count;
  int64_t first;  // the number of the first element in its parameter: noise is drawn by it
  uint32_t first_chunk;
  DType grad_dtype;
  DType low_dtype;
  bool packs;  // whether every address, and the noise, allows packs of four
};

// Where a lane's fours lie in a block of parameters of this type: bf16 side by side, 16 bytes and as many
// numbers as a block of Philox has; fp32, of which four are 16 bytes, in either half of the block.
template <class Param>
struct LaneLayout {
  static constexpr bool kSideBySide = sizeof(Param) == 2;
  static constexpr int64_t kDistance = kSideBySide ? 4 : kEightBitBlock / 2;

  // The first element of the lane's first four.
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
  // What is stored is not read before the next step: the cache need not keep it.
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

// A copy for each translation unit that uses it: constants of the program's image.
static __device__ const EightBitMap kSignedMap = make_eight_bit_map(EightBitSign::kSigned);
static __device__ const EightBitMap kUnsignedMap = make_eight_bit_map(EightBitSign::kUnsigned);

// One state's numbers and cells in shared memory. A cell is kept so that one addition to the magnitude's bits
// gives the code in the upper half: the addition takes the upper bits away, and the lower ones carry where
// they are beyond the limit.
struct SharedMap {
  float numbers[256];
  uint32_t cells[kEightBitCells];

  __device__ __forceinline__ void load(const EightBitMap& map) {
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) numbers[i] = map.numbers.data()[i];
    for (uint32_t i = threadIdx.x; i < kEightBitCells; i += blockDim.x) {
      cells[i] = (map.cells.data()[i] ^ 0xffffu) - ((i + kEightBitFirstCell) << 16);
    }
  }
  // As eight_bit_magnitude, the code in bits 16 to 23. Requires: 2^-23 <= magnitude < 1 + 2^-7.
  __device__ __forceinline__ uint32_t find(float magnitude) const {
    const uint32_t bits = __float_as_uint(magnitude);
    return bits + cells[(bits >> 16) - kEightBitFirstCell];
  }
};

// The quotient of an element and its block's largest magnitude as the map takes it. Both maxima are of
// numbers that have the same code: there is no -1, and all below 2^-23 is 0. They also take NaN away.
template <EightBitSign kSign>
__device__ __forceinline__ float quotient_of(float x, float inverse) {
  constexpr float kLeast = eight_bit_numbers(EightBitSign::kSigned)[0];
  return kSign == EightBitSign::kSigned ? fmaxf(x * inverse, kLeast) : x * inverse;
}
__device__ __forceinline__ float magnitude_of(float quotient) {
  return fmaxf(fabsf(quotient), 0x1p-23f);
}
template <EightBitSign kSign>
__device__ __forceinline__ uint8_t code_of(const SharedMap& map, float x, float inverse) {
  const float quotient = quotient_of<kSign>(x, inverse);
  const uint32_t size = map.find(magnitude_of(quotient)) >> 16;
  if constexpr (kSign == EightBitSign::kUnsigned) return static_cast<uint8_t>(size);
  return eight_bit_signed_code(size, quotient < 0.0f);
}

// Bytes of two words by a selector of four digits: 0 to 3 are those of a, 4 to 7 those of b, and 8 more
// stands for the byte's sign in all of its bits.
template <uint32_t kSelector>
__device__ __forceinline__ uint32_t bytes_of(uint32_t a, uint32_t b) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(kSelector));
  return bytes;
}

// A lane's part of a block of one state.
template <EightBitSign kSign>
struct StateBlock {
  float x[2][4];

  __device__ __forceinline__ void load(const SharedMap& map, const Raw<uint8_t, 4> (&codes)[2],
                                       float absmax) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = codes[half].word[0];
      x[half][0] = map.numbers[word & 0xffu] * absmax;
      x[half][1] = map.numbers[bytes_of<0x4441>(word, 0)] * absmax;
      x[half][2] = map.numbers[bytes_of<0x4442>(word, 0)] * absmax;
      x[half][3] = map.numbers[word >> 24] * absmax;
    }
  }
  __device__ __forceinline__ float largest() const {
    float absmax = 0.0f;
#pragma unroll
    for (const float(&part)[4] : x) {
#pragma unroll
      for (const float value : part) absmax = fmaxf(absmax, fabsf(value));
    }
    return warp_max_of_magnitudes(absmax);
  }
  // The codes of four. Negative numbers mirror positive ones; no byte carries into another.
  __device__ __forceinline__ uint32_t codes(const SharedMap& map, float inverse, int half) const {
    uint32_t quotients[4], found[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float quotient = quotient_of<kSign>(x[half][i], inverse);
      quotients[i] = __float_as_uint(quotient);
      found[i] = map.find(magnitude_of(quotient));
    }
    const uint32_t sizes =
        bytes_of<0x5410>(bytes_of<0x0062>(found[0], found[1]), bytes_of<0x0062>(found[2], found[3]));
    if constexpr (kSign == EightBitSign::kUnsigned) return sizes;
    const uint32_t negative = bytes_of<0x5410>(bytes_of<0x00fb>(quotients[0], quotients[1]),
                                               bytes_of<0x00fb>(quotients[2], quotients[3]));
    return 0x7f7f7f7fu + (sizes & ~negative) - (sizes & negative);
  }
};

// 1 / absmax, 0 of a block that is zero (eight_bit.h). Between the two limits nothing on the way is flushed.
__device__ __forceinline__ float inverse_of(float absmax) {
  if (absmax >= 0x1p-126f && absmax <= 0x1p125f) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(absmax));
    return fmaf(fmaf(-inverse, absmax, 1.0f), inverse, inverse);
  }
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

// A lane's gradients of a block as they lie in memory. Grad: their type, or void where each tensor says its
// own.
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

// Numbers of a parameter as they lie in memory. Param: float, or __nv_bfloat16 of a parameter that is nothing
// else, which is rounded stochastically with the tensor's noise.
template <class Param, int N>
__device__ __forceinline__ Raw<Param, N> packed_parameter(const float (&p)[N],
                                                          const uint32_t (&noise)[(N + 1) / 2]) {
  if constexpr (std::is_same_v<Param, float>) {
    return pack<float, N>(p);
  } else {
    return rounded_stochastically<N>(p, noise);
  }
}

// What a lane reads of a whole block, as it lies in memory: numbers made of it here would wait for it, and
// take more registers.
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

// What a lane computes with of a whole block.
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

// A whole block whose addresses allow packs. Step: step.apply(float& p, float g, float& m, float& v).
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

// The last block of a tensor, or one whose addresses are odd: an element at a time, the states twice, once
// for the largest and once for the codes, so that nothing is kept.
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
  __syncwarp();  // every lane has read the old ones
  if (lane == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

// A block of 256 elements that a warp takes. What it knows of the chunk's tensor it finds out where it comes
// to another.
struct EightBitTurn {
  uint32_t chunk = 0;
  uint32_t first_chunk = 0;   // of the tensor
  uint32_t end_chunk = 0;     // behind the last tensor there are none
  uint32_t whole_blocks = 0;  // that are taken as packs
  int index = 0;              // of the tensor's entry
  uint32_t block = 0;         // in the tensor
  bool is_whole = false;

  // To the number-th block of those that fall to this block of threads. Requires: numbers only grow.
  template <class Table>
  __device__ __forceinline__ void go_to(const Table& table, uint32_t number) {
    chunk = number / kChunkBlocks * gridDim.x + blockIdx.x;
    if (chunk >= end_chunk) enter(table);
    block = (chunk - first_chunk) * kChunkBlocks + number % kChunkBlocks;
    is_whole = block < whole_blocks;
  }

 private:
  template <class Table>
  __device__ __forceinline__ void enter(const Table& table) {
    whole_blocks = 0;
    if (chunk >= table.num_chunks) return;
    index = table.find(chunk);
    const EightBitEntry& entry = table.entries[index];
    first_chunk = entry.first_chunk;
    end_chunk = index + 1 < table.num_entries ? table.entries[index + 1].first_chunk : table.num_chunks;
    if (entry.packs) whole_blocks = static_cast<uint32_t>(entry.count / kEightBitBlock);
  }
};

// Numbers of blocks of elements, each for one warp: the first is the warp's own.
struct EightBitNumbers {
  uint32_t given;   // the address in shared memory of how many have been given
  uint32_t coming;  // in lane 0; nothing waits for it before it is taken

  static __device__ __forceinline__ uint32_t first() { return threadIdx.x / 32; }
  // Of atomicAdd nvcc makes a sum over the warp, which waits for it at once.
  __device__ __forceinline__ void ask() {
    if (threadIdx.x % 32 == 0) {
      asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(coming) : "r"(given) : "memory");
    }
  }
  __device__ __forceinline__ uint32_t take() {
    const uint32_t number = __shfl_sync(0xffffffffu, coming, 0);
    ask();
    return number;
  }
};

// What the warps of a block of threads share.
template <bool kHasV, class Step>
struct EightBitShared {
  SharedMap maps[kHasV ? 2 : 1];
  Step step;
  uint32_t given;
};

// A warp's operands come while it computes the block before. `shared.step` need not be there before the
// barrier of this function. `noise` is that of the list's first tensor; the others' sites follow.
template <class Param, class Grad, bool kHasV, class Table, class Step>
__device__ __forceinline__ void update_eight_bit(const Table& table, EightBitShared<kHasV, Step>& shared,
                                                 Noise noise) {
  BlockOperands<Param, Grad, kHasV> coming;
  EightBitTurn next;
  next.go_to(table, EightBitNumbers::first());
  if (next.is_whole) coming.load(table.entries[next.index], next.block);
  SharedMap* maps = shared.maps;
  maps[0].load(kSignedMap);
  if constexpr (kHasV) maps[1].load(kUnsignedMap);
  if (threadIdx.x == 0) shared.given = kEightBitWarps<kHasV>;
  __syncthreads();
  const Step step = shared.step;
  EightBitNumbers numbers{.given = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.given)),
                          .coming = 0};
  numbers.ask();
  const uint32_t first_site = noise.site + static_cast<uint32_t>(table.first_index);
  const auto advance = [&] {
    next.go_to(table, numbers.take());
    if (next.is_whole) coming.load(table.entries[next.index], next.block);
  };
  for (;;) {
    while (next.is_whole) {
      const EightBitEntry& entry = table.entries[next.index];
      const uint32_t block = next.block;
      noise.site = first_site + static_cast<uint32_t>(next.index);
      BlockNumbers<kHasV> x;
      if constexpr (!std::is_same_v<Param, float>) {
        noise.draw_eight(entry.first + LaneLayout<Param>::first(block), x.noise);
      }
      x.unpack_from(coming, maps, entry.grad_dtype);
      advance();
      update_whole_block<Param, kHasV>(entry, block, x, maps, step);
    }
    if (next.chunk >= table.num_chunks) return;
    const EightBitEntry& entry = table.entries[next.index];
    noise.site = first_site + static_cast<uint32_t>(next.index);
    if (int64_t{next.block} * kEightBitBlock < entry.count) {
      update_part_block<Param, kHasV>(entry, next.block, maps, step, noise.where());
    }
    // So that nothing of it lives across the call, for which it would be put away as soon as it has come.
    coming = {};
    advance();
  }
}

// Checks the tensors of one update and makes its entries.
struct EightBitEntryMaker {
  const char* kernel;
  bool has_v;
  DType param_dtype;  // of all tensors

  EightBitEntry operator()(const OptimizerTensor& tensor) const {
    check_cuda_operands(kernel, {{"grad", tensor.grad}});
    PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                   "{}: the copy of a parameter is {}, not 16 bits of floating point", kernel,
                   dtype_name(tensor.low.dtype));
    PLIMSOLL_CHECK(tensor.param.dtype == param_dtype && !tensor.remainder,
                   "{}: a {} parameter in a list of {}", kernel, dtype_name(tensor.param.dtype),
                   dtype_name(param_dtype));
    EightBitEntry entry{};
    entry.param = tensor.param.data;
    entry.grad = tensor.grad.data;
    entry.m = tensor.m.as<uint8_t>();
    entry.m_absmax = tensor.m_absmax.as<float>();
    entry.v = has_v ? tensor.v.as<uint8_t>() : nullptr;
    entry.v_absmax = has_v ? tensor.v_absmax.as<float>() : nullptr;
    entry.low = tensor.low.data;
    entry.count = tensor.count;
    entry.first = tensor.first;
    entry.grad_dtype = tensor.grad.dtype;
    entry.low_dtype = tensor.low.dtype;
    entry.packs =
        tensor.first % 8 == 0 && aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// make_step(scalars) in device code: the update of one element.
template <class Param, class Grad, bool kHasV, auto make_step, class Scalars, class Table>
static __global__ void __launch_bounds__(kEightBitThreads<kHasV>, 1)
    eight_bit_kernel(const Scalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ EightBitShared<kHasV, decltype(make_step(scalars))> shared;
  if (threadIdx.x == 0) shared.step = make_step(scalars);
  update_eight_bit<Param, Grad>(table, shared, Noise(scalars.noise));
}

// The update of all tensors, as many in a launch as a table holds. Requires: parameters are all f32, or all
// bf16 and nothing else.
template <bool kHasV, auto make_step, class Scalars>
void launch_eight_bit(const char* kernel, std::span<const OptimizerTensor> tensors, const Scalars& scalars,
                      CudaStream stream) {
  const DType dtype = tensors.empty() ? DType::kF32 : tensors.front().param.dtype;
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "{}: parameters are {}", kernel,
                 dtype_name(dtype));
  const auto processors = static_cast<uint32_t>(device_attribute<cudaDevAttrMultiProcessorCount>());
  for_each_table<EightBitEntry>(
      tensors, kEightBitChunk, EightBitEntryMaker{kernel, kHasV, dtype}, [&](const auto& table) {
        if (table.num_chunks == 0) return;
        using Table = std::remove_cvref_t<decltype(table)>;
        const auto launch = [&](auto* update) {
          update<<<std::min(table.num_chunks, processors), kEightBitThreads<kHasV>, 0, stream>>>(scalars,
                                                                                                 table);
          PLIMSOLL_CHECK_LAUNCH("eight_bit_kernel");
        };
        const std::span entries(table.entries, static_cast<size_t>(table.num_entries));
        const auto grads_are = [&](DType all) {
          return std::ranges::all_of(
              entries, [&](DType grad) { return grad == all; }, &EightBitEntry::grad_dtype);
        };
        if (dtype == DType::kF32 && grads_are(DType::kF32)) {
          launch(eight_bit_kernel<float, float, kHasV, make_step, Scalars, Table>);
        } else if (dtype == DType::kF32 && grads_are(DType::kBF16)) {
          launch(eight_bit_kernel<float, __nv_bfloat16, kHasV, make_step, Scalars, Table>);
        } else if (dtype == DType::kF32) {
          launch(eight_bit_kernel<float, void, kHasV, make_step, Scalars, Table>);
        } else if (grads_are(DType::kBF16)) {
          launch(eight_bit_kernel<__nv_bfloat16, __nv_bfloat16, kHasV, make_step, Scalars, Table>);
        } else {
          launch(eight_bit_kernel<__nv_bfloat16, void, kHasV, make_step, Scalars, Table>);
        }
      });
}

}  // namespace plimsoll::cuda
