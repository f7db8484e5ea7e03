// What the kernels of AdamW, Lion, SGD and Adagrad with 8-bit states share: the table of tensors to update,
// the maps in shared memory, and the walk over blocks of 256 elements, a warp to each. A lane takes four
// elements of either half of its block; what it reads of a block it has asked for before it computes the
// block before. Instructions are what these kernels are short of: in the time of an element's 16 bytes a
// multiprocessor of an H200 issues 112, AdamW takes some 80. Only for .cu files. Thread-safe: no state.
#pragma once

#include <type_traits>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/optimizer/cuda/split.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll::cuda {

// As many warps as there are registers for: of 8 or 12 AdamW takes 2 to 4 % longer on an H200.
inline constexpr int kEightBitWarps = 9;
inline constexpr int kEightBitThreads = 32 * kEightBitWarps;
inline constexpr int64_t kEightBitChunk = kEightBitWarps * kEightBitBlock;
// Blocks of threads that a multiprocessor holds; more would have too few registers for what they fetch ahead.
inline constexpr unsigned kEightBitResident = 3;

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
    for (uint32_t i = threadIdx.x; i < 256; i += kEightBitThreads) numbers[i] = map.numbers.data()[i];
    for (uint32_t i = threadIdx.x; i < kEightBitCells; i += kEightBitThreads) {
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

// A lane's part of a block of one state: four numbers of either half.
template <EightBitSign kSign>
struct StateBlock {
  float x[2][4];

  __device__ __forceinline__ void load(const SharedMap& map, const uint32_t (&words)[2], float absmax) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      x[half][0] = map.numbers[words[half] & 0xffu] * absmax;
      x[half][1] = map.numbers[bytes_of<0x4441>(words[half], 0)] * absmax;
      x[half][2] = map.numbers[bytes_of<0x4442>(words[half], 0)] * absmax;
      x[half][3] = map.numbers[words[half] >> 24] * absmax;
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
  // The codes of a half. Negative numbers mirror positive ones; no byte carries into another.
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

// Four gradients as they lie in memory.
struct RawGrad {
  uint32_t words[4];

  __device__ __forceinline__ void load(const EightBitEntry& entry, int64_t i) {
    if (entry.grad_dtype == DType::kF32) {
      const auto raw = load_raw<float, 4>(static_cast<const float*>(entry.grad) + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) words[k] = raw.word[k];
    } else {
      const auto raw = load_raw<__half, 4>(static_cast<const __half*>(entry.grad) + i);
      words[0] = raw.word[0];
      words[1] = raw.word[1];
    }
  }
  __device__ __forceinline__ void unpack_as(DType dtype, float (&g)[4]) const {
    if (dtype == DType::kF32) {
#pragma unroll
      for (int k = 0; k < 4; ++k) g[k] = __uint_as_float(words[k]);
    } else if (dtype == DType::kBF16) {
      unpack<__nv_bfloat16, 4>({{words[0], words[1]}}, g);
    } else {
      unpack<__half, 4>({{words[0], words[1]}}, g);
    }
  }
};

// Elements i to i + N - 1 of a parameter, with their copy where there is one. Param: float, or __nv_bfloat16
// of a parameter that is nothing else, which is rounded stochastically with the tensor's noise. What is
// stored is not read before the next step: the cache need not keep it.
template <class Param, int N>
__device__ __forceinline__ void store_parameter(const EightBitEntry& entry, int64_t i, const float (&p)[N],
                                                const RandomSite& noise) {
  auto* to = static_cast<Param*>(entry.param) + i;
  if constexpr (!std::is_same_v<Param, float>) {
    uint32_t numbers[N];
    draw_noise<N>(noise, entry.first + i, numbers);
    store_stochastically<N>(to, p, numbers);
  } else {
    if constexpr (N == 4) {
      __stcs(reinterpret_cast<float4*>(to), make_float4(p[0], p[1], p[2], p[3]));
    } else {
      *to = p[0];
    }
    store_low<N>(entry, i, p);
  }
}

// What a lane reads of a whole block, as it lies in memory.
template <class Param, bool kHasV>
struct BlockOperands {
  float p[2][4];
  RawGrad g[2];
  uint32_t m[2], v[2];
  float m_absmax, v_absmax;

  __device__ __forceinline__ void load(const EightBitEntry& entry, int64_t begin, int lane) {
    const int64_t block = begin / kEightBitBlock;
    m_absmax = entry.m_absmax[block];
    if constexpr (kHasV) v_absmax = entry.v_absmax[block];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t i = begin + half * 128 + lane * 4;
      load_floats<Param, 4>(static_cast<const Param*>(entry.param) + i, p[half]);
      m[half] = *reinterpret_cast<const uint32_t*>(entry.m + i);
      if constexpr (kHasV) v[half] = *reinterpret_cast<const uint32_t*>(entry.v + i);
      g[half].load(entry, i);
    }
  }
};

// A whole block whose addresses allow packs. Step: step.apply(float& p, float g, float& m, float& v).
template <class Param, bool kHasV, class Step>
__device__ __forceinline__ void update_whole_block(const EightBitEntry& entry, int64_t begin,
                                                   BlockOperands<Param, kHasV>& old, const SharedMap* maps,
                                                   const Step& step, const RandomSite& noise) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = begin / kEightBitBlock;
  StateBlock<EightBitSign::kSigned> m;
  StateBlock<EightBitSign::kUnsigned> v;
  m.load(maps[0], old.m, old.m_absmax);
  if constexpr (kHasV) v.load(maps[1], old.v, old.v_absmax);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t i = begin + half * 128 + lane * 4;
    float g[4];
    old.g[half].unpack_as(entry.grad_dtype, g);
#pragma unroll
    for (int k = 0; k < 4; ++k) step.apply(old.p[half][k], g[k], m.x[half][k], v.x[half][k]);
    store_parameter<Param, 4>(entry, i, old.p[half], noise);
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
    __stcs(reinterpret_cast<uint32_t*>(entry.m + i), m.codes(maps[0], m_inverse, half));
    if constexpr (kHasV) __stcs(reinterpret_cast<uint32_t*>(entry.v + i), v.codes(maps[1], v_inverse, half));
  }
  if (lane == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

// The last block of a tensor, or one whose addresses are odd: an element at a time, the states twice, once
// for the largest and once for the codes, so that nothing is kept.
template <class Param, bool kHasV, class Step>
__device__ __noinline__ void update_part_block(const EightBitEntry& entry, int64_t begin,
                                               const SharedMap* maps, const Step step,
                                               const RandomSite noise) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = begin / kEightBitBlock;
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
    store_parameter<Param, 1>(entry, i, p, noise);
    entry.m[i] = code_of<EightBitSign::kSigned>(maps[0], m, m_inverse);
    if constexpr (kHasV) entry.v[i] = code_of<EightBitSign::kUnsigned>(maps[1], v, v_inverse);
  }
  __syncwarp();  // every lane has read the old ones
  if (lane == 0) {
    entry.m_absmax[block] = m_new;
    if constexpr (kHasV) entry.v_absmax[block] = v_new;
  }
}

// A warp's block of 256 elements in a chunk; past the last chunk it has none.
struct EightBitTurn {
  int index = 0;  // of the tensor's entry
  int64_t begin = 0;
  bool is_whole = false;

  // From the turn before: its tensor is the next one's too, mostly.
  template <class Table>
  __device__ __forceinline__ EightBitTurn next(const Table& table, uint32_t chunk) const {
    EightBitTurn turn;
    if (chunk >= table.num_chunks) return turn;
    const bool same = index + 1 == table.num_entries || chunk < table.entries[index + 1].first_chunk;
    turn.index = same ? index : table.find(chunk);
    const EightBitEntry& entry = table.entries[turn.index];
    turn.begin = static_cast<int64_t>(chunk - entry.first_chunk) * kEightBitChunk +
                 static_cast<int64_t>(threadIdx.x / 32) * kEightBitBlock;
    turn.is_whole = entry.packs && turn.begin + kEightBitBlock <= entry.count;
    return turn;
  }
};

// A warp's operands come while it computes the block before. `shared_step` need not be there before the
// barrier of this function. `noise` is that of the list's first tensor; the others' sites follow.
template <class Param, bool kHasV, class Table, class Step>
__device__ __forceinline__ void update_eight_bit(const Table& table, const Step& shared_step, SharedMap* maps,
                                                 RandomSite noise) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  BlockOperands<Param, kHasV> coming;
  EightBitTurn next = EightBitTurn{}.next(table, blockIdx.x);
  if (next.is_whole) coming.load(table.entries[next.index], next.begin, lane);
  maps[0].load(kSignedMap);
  if constexpr (kHasV) maps[1].load(kUnsignedMap);
  __syncthreads();
  const Step step = shared_step;
  const uint32_t first_site = noise.site + static_cast<uint32_t>(table.first_index);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    const EightBitTurn turn = next;
    BlockOperands<Param, kHasV> old = coming;
    next = turn.next(table, chunk + gridDim.x);
    if (next.is_whole) coming.load(table.entries[next.index], next.begin, lane);
    const EightBitEntry& entry = table.entries[turn.index];
    noise.site = first_site + static_cast<uint32_t>(turn.index);
    if (turn.is_whole) {
      update_whole_block<Param, kHasV>(entry, turn.begin, old, maps, step, noise);
    } else if (turn.begin < entry.count) {
      update_part_block<Param, kHasV>(entry, turn.begin, maps, step, noise);
    }
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
        tensor.first % 4 == 0 && aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// Calls launch(table, Param{}) with as many tensors as a table holds. Requires: parameters are all f32, or
// all bf16 and nothing else.
template <class Launch>
void for_each_eight_bit_table(const char* kernel, std::span<const OptimizerTensor> tensors, bool has_v,
                              const Launch& launch) {
  const DType dtype = tensors.empty() ? DType::kF32 : tensors.front().param.dtype;
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "{}: parameters are {}", kernel,
                 dtype_name(dtype));
  for_each_table<EightBitEntry>(tensors, kEightBitChunk, EightBitEntryMaker{kernel, has_v, dtype},
                                [&](const auto& table) {
                                  if (table.num_chunks == 0) return;
                                  if (dtype == DType::kF32) {
                                    launch(table, float{});
                                  } else {
                                    launch(table, __nv_bfloat16{});
                                  }
                                });
}

// A grid that fills the card: blocks walk over the chunks.
inline unsigned eight_bit_grid(uint32_t num_chunks) {
  const auto most =
      static_cast<unsigned>(device_attribute<cudaDevAttrMultiProcessorCount>()) * kEightBitResident;
  return num_chunks < most ? num_chunks : most;
}

}  // namespace plimsoll::cuda
