// Tiles in shared memory and their products on the tensor cores, in bf16, f16 or tf32 (DType::kF32), for
// blocks of four warps. Device code only, compute capability 8.0 and later.
//
// A tile consists of rows of kDim 16-bit elements or kDim / 2 floats (kDim 32 to 256), in chunks of 16 bytes. Chunk c of row r is stored at
// position c ^ s(r) of its row, with s(r) = r % 8, or r / 2 % 4 if a row has four chunks. ldmatrix reads the same chunk of eight adjacent
// rows at once; with this layout these chunks are in eight different groups of banks.
//
// Fragments (the parts of an operand or accumulator in the registers of each lane) are those of mma.sync.m16n8k16 (PTX ISA, "Matrix
// fragments for mma.m16n8k16"): of a 16 x 8 accumulator, lane l holds columns 2 (l % 4) and 2 (l % 4) + 1 of rows l / 4 (elements 0 and 1)
// and l / 4 + 8 (elements 2 and 3). Two adjacent accumulators, rounded to 16 bits, are the left operand of the next product over these 16
// columns.
#pragma once

#include "kernels/attention/attention_device.cuh"

// Kernels that use tensor cores are compiled with an empty body for devices older than compute capability 8.0. attention_catalog.cc and
// attention_cuda.cc never choose them on these devices.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define PLIMSOLL_HAS_MMA
#endif

namespace plimsoll::attention {

inline constexpr int kMmaThreads = 128;
inline constexpr float kLog2E = 1.4426950408889634f;

// Returns the byte offset within a tile of a 16-byte chunk of a row. The functions below use it for the address that a lane passes to
// ldmatrix for the first fragment of a tile.
template <int kDim>
__device__ inline uint32_t lane_offset(int row, int chunk) {
  const int place = kDim == 32 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
  return static_cast<uint32_t>(row * kDim * 2 + place * 16);
}
// Returns the offset that this lane passes to ldmatrix for a left operand, or for a right operand whose product sums over the rows of its
// tile.
template <int kDim>
__device__ inline uint32_t lane_by_columns() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return lane_offset<kDim>(lane % 16, lane / 16);
}
// Returns the offset that this lane passes to ldmatrix for a right operand whose product sums over the columns of its tile.
template <int kDim>
__device__ inline uint32_t lane_by_rows() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return lane_offset<kDim>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}
// Returns the address that this lane passes to ldmatrix for the fragment that starts at row `row` (a multiple of 8) and column 16 * step.
// `lane` is the result of lane_by_columns() or lane_by_rows(). Because chunks are stored at XORed positions, the offset of column 16 * step
// is XORed with `lane` instead of being added.
template <int kDim>
__device__ inline uint32_t fragment_at(uint32_t tile, uint32_t lane, int row, int step) {
  return tile + (lane ^ (static_cast<uint32_t>(step) << 5)) + static_cast<uint32_t>(row * kDim * 2);
}

__device__ inline void load_matrices(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_transposed(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

// Expands to one mma.sync instruction of the given `shape` and operand `type`.
#define PLIMSOLL_MMA(shape, type)                                            \
  asm("mma.sync.aligned." shape ".row.col.f32." type "." type                \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <DType kType>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_MMA("m16n8k16", "bf16");
  } else if constexpr (kType == DType::kF32) {
    PLIMSOLL_MMA("m16n8k8", "tf32");
  } else {
    PLIMSOLL_MMA("m16n8k16", "f16");
  }
}
#undef PLIMSOLL_MMA

// Rounds two floats to nearest even and packs them into one word, with `low` in the lower half.
template <DType kType>
__device__ inline uint32_t pack(float low, float high) {
  uint32_t x;
  if constexpr (kType == DType::kBF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  }
  return x;
}

// Rounds fp32 to the 11 bits of tf32 by adding half of the last bit that is kept. The tensor cores truncate the remaining bits, so they are
// not cleared here; cvt.rna.tf32 would spend one more instruction on that.
__device__ inline uint32_t round_tf32(uint32_t x) {
  // A NaN is returned unchanged. The GPU's default NaN has all lower bits set, so the addition would overflow into the exponent and sign
  // and give a number.
  const float value = __uint_as_float(x);
  return value == value ? x + 0x1000u : x;
}
__device__ inline uint4 round_tf32(const uint4& x) {
  return {round_tf32(x.x), round_tf32(x.y), round_tf32(x.z), round_tf32(x.w)};
}

// The width of a tile row of kDim elements, in units of 16 bits; a float takes two units.
template <DType kType, int kDim>
inline constexpr int kHalves = kType == DType::kF32 ? 2 * kDim : kDim;
// The number of terms that one mma instruction adds to each sum.
template <DType kType>
inline constexpr int kDepth = kType == DType::kF32 ? 8 : 16;

// Converts accumulators to a left operand of the next matrix product. `part` selects kDepth of their columns. Floats stay in the lane that
// holds them, which changes the order of the sum: with t = lane % 4, columns 2 t and 2 t + 1 become its terms t and t + 4. multiply_by_rows
// uses the same order.
template <DType kType, int kN>
__device__ inline void take_fragment(uint32_t (&a)[4], const float (&acc)[kN][4], int part) {
  if constexpr (kType == DType::kF32) {
    a[0] = round_tf32(__float_as_uint(acc[part][0]));
    a[1] = round_tf32(__float_as_uint(acc[part][2]));
    a[2] = round_tf32(__float_as_uint(acc[part][1]));
    a[3] = round_tf32(__float_as_uint(acc[part][3]));
  } else {
    a[0] = pack<kType>(acc[2 * part][0], acc[2 * part][1]);
    a[1] = pack<kType>(acc[2 * part][2], acc[2 * part][3]);
    a[2] = pack<kType>(acc[2 * part + 1][0], acc[2 * part + 1][1]);
    a[3] = pack<kType>(acc[2 * part + 1][2], acc[2 * part + 1][3]);
  }
}

// The offsets at which this lane loads right operands whose product sums over the rows of their tile.
template <DType kType, int kDim>
struct ColumnLanes {
  uint32_t first, second;
  __device__ ColumnLanes() {
    if constexpr (kType == DType::kF32) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      first = lane_offset<2 * kDim>(lane % 4 * 2, lane / 4);
      second = lane_offset<2 * kDim>(lane % 4 * 2 + 1, lane / 4);
    } else {
      first = lane_by_columns<kDim>();
      second = 0;
    }
  }
};
__device__ inline uint4 load_16(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
__device__ inline void store_16(uint32_t address, const uint4& x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}

// Computes acc[m] += a[m] times kDepth rows of a tile, starting at `row`. ldmatrix can transpose only 16-bit elements. For floats, a lane
// instead reads four adjacent elements of a row at once and uses them in four products. Column c of product j (0 <= j < 4) is then column
// 32 g + 4 c + j of the tile, in the group of 32 columns with number g. store_rows undoes this order.
template <DType kType, int kDim, int kM>
__device__ inline void multiply_by_rows(const uint32_t (&a)[kM][4], uint32_t tile,
                                        const ColumnLanes<kType, kDim>& lanes, int row,
                                        float (&acc)[kM][kDim / 8][4]) {
  if constexpr (kType == DType::kF32) {
#pragma unroll
    for (int g = 0; g < kDim / 32; ++g) {
      const uint4 x = load_16(fragment_at<2 * kDim>(tile, lanes.first, row, 4 * g));
      const uint4 y = load_16(fragment_at<2 * kDim>(tile, lanes.second, row, 4 * g));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<kType>(acc[m][4 * g], a[m], x.x, y.x);
        multiply_add<kType>(acc[m][4 * g + 1], a[m], x.y, y.y);
        multiply_add<kType>(acc[m][4 * g + 2], a[m], x.z, y.z);
        multiply_add<kType>(acc[m][4 * g + 3], a[m], x.w, y.w);
      }
    }
  } else {
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      load_transposed(b, fragment_at<kDim>(tile, lanes.first, row, n));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<kType>(acc[m][2 * n], a[m], b[0], b[1]);
        multiply_add<kType>(acc[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
template <DType kType>
__device__ inline float2 unpack(uint32_t x) {
  if constexpr (kType == DType::kBF16) {
    return {__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&x));
  }
}

// Returns 2^x with a relative error of at most 2^-22; 0 for minus infinity.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Starts copying rows row .. row + kRows - 1 of the sequence into a tile. Elements past the end of the sequence or the head size become
// zero.
template <DType kType, int kDim, int kRows>
__device__ inline void copy_tile(const AttentionKernelArgs& args, const Work& work, const void* data,
                                 int64_t stride, int row, uint32_t tile) {
  constexpr int kWidth = kHalves<kType, kDim>, kChunks = kWidth / 8;
  constexpr int kRowsAtOnce = kMmaThreads / kChunks, kBytes = kType == DType::kF32 ? 4 : 2;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks, first = static_cast<int>(threadIdx.x) / kChunks;
  const bool has_columns = 16 * chunk < kBytes * args.head_dim;
  const auto* from = static_cast<const std::byte*>(data) +
                     (static_cast<int64_t>(work.first + row + first) * stride +
                      static_cast<int64_t>(work.head) * args.head_dim) *
                         kBytes +
                     16 * chunk;
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
    const int r = first + i * kRowsAtOnce;
    const bool is_valid = has_columns && row + r < work.count;
    copy_16(tile + lane_offset<kWidth>(r, chunk), is_valid ? from + i * kRowsAtOnce * stride * kBytes : data,
            is_valid);
  }
}

// Rounds the floats of a tile to tf32 in place. Requires: the copies of the tile have ended. Each thread rounds the elements that it copied
// itself. Most elements of the tile are read more than once afterwards, and would otherwise be rounded each time.
template <DType kType, int kDim, int kRows>
__device__ inline void round_tile(uint32_t tile) {
  if constexpr (kType == DType::kF32) {
    constexpr int kWidth = kHalves<kType, kDim>, kChunks = kWidth / 8, kRowsAtOnce = kMmaThreads / kChunks;
    constexpr int kMine = kRows / kRowsAtOnce, kAtOnce = 4;
    const int chunk = static_cast<int>(threadIdx.x) % kChunks,
              first = static_cast<int>(threadIdx.x) / kChunks;
#pragma unroll
    for (int begin = 0; begin < kMine; begin += kAtOnce) {
      uint4 x[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        x[i] = load_16(tile + lane_offset<kWidth>(first + (begin + i) * kRowsAtOnce, chunk));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        store_16(tile + lane_offset<kWidth>(first + (begin + i) * kRowsAtOnce, chunk), round_tf32(x[i]));
      }
    }
  }
}

// Stores a warp's 16 * kM rows of a result. Multiplies each row by its `factor`, rounds it, and writes it through rows of shared memory
// that only this warp uses. In the array `acc[m][n]` of a lane, elements 0 and 1 belong to one row, with factor[m][0], and elements 2 and 3
// to another, with factor[m][1]. place(row, chunk) is the offset in `tile` of a 16-byte chunk of a row.
template <DType kType, int kDim, int kM, typename Place>
__device__ inline void store_rows(const AttentionKernelArgs& args, const Work& work, void* data,
                                  int64_t stride, std::byte* tile, const Place& place,
                                  const float (&acc)[kM][kDim / 8][4], const float (&factor)[kM][2]) {
  constexpr int kWidth = kHalves<kType, kDim>, kChunks = kWidth / 8, kBytes = kType == DType::kF32 ? 4 : 2;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (warp * kM + m) * 16 + 8 * half + lane / 4;
      const float by = factor[m][half];
      if constexpr (kType == DType::kF32) {
        // Stores 16 bytes at a time: four adjacent columns, which are in four accumulators (see multiply_by_rows).
#pragma unroll
        for (int part = 0; part < kDim / 16; ++part) {
          const int n = part / 2 * 4, e = 2 * half + part % 2;
          *reinterpret_cast<float4*>(tile + place(row, 2 * n + lane % 4 * 2 + part % 2)) = {
              acc[m][n][e] * by, acc[m][n + 1][e] * by, acc[m][n + 2][e] * by, acc[m][n + 3][e] * by};
        }
      } else {
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          *reinterpret_cast<uint32_t*>(tile + place(row, n) + lane % 4 * 4) =
              pack<kType>(acc[m][n][2 * half] * by, acc[m][n][2 * half + 1] * by);
        }
      }
    }
  }
  __syncwarp();
  const int chunk = lane % kChunks;
  if (16 * chunk >= kBytes * args.head_dim) return;
  for (int r = lane / kChunks; r < 16 * kM; r += 32 / kChunks) {
    const int row = warp * kM * 16 + r;
    if (work.row + row >= work.count) break;
    auto* to = static_cast<std::byte*>(data) +
               (static_cast<int64_t>(work.first + work.row + row) * stride +
                static_cast<int64_t>(work.head) * args.head_dim) *
                   kBytes +
               16 * chunk;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(tile + place(row, chunk));
  }
}

// Draws the dropout numbers of a warp's 16 * kM query rows and 64 keys. Each lane draws those of the accumulator elements that it holds,
// which for one row and 32 keys is one Philox block. The work is divided into kParts calls of draw(), which the compiler can place between
// the mma instructions, because the integer units are idle during these.
template <int kM>
class KeepDraw {
 public:
  static constexpr int kParts = 16;
  static constexpr int kRows = 2 * kM;  // number of query rows per lane

  KeepDraw() = default;
  // Starts to draw the numbers of 64 keys, the first of which is `key` of the sequence.
  __device__ KeepDraw(const AttentionKernelArgs& args, const Work& work, int warp_row, int key) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row_ = keep_row(args, work.first + work.row + warp_row + lane / 4, work.head);
    block_ = static_cast<uint32_t>(key / 8 + lane % 4);
  }

  // Draws part number `part` of the random numbers. Some of the kParts parts may be empty. Requires: `part` is a compile-time constant, 0
  // <= part < kParts, and the calls are in the order of the parts.
  __device__ void draw(const AttentionKernelArgs& args, const Dropout& dropout, int part) {
    constexpr int kApart = kParts / (2 * kRows);
    if (part % kApart != 0) return;
    const int group = part / kApart / kRows, row = part / kApart % kRows;
    if (row == 0) start_ = start_block(dropout, block_ + 4 * static_cast<uint32_t>(group));
    uint32_t words[4];
    draw_block(dropout, start_, row_ + static_cast<uint32_t>(8 * row * args.all_heads), words);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      bits_[row] = bits_[row] >> 1 | (kept_halves(dropout, words[n]) & 0x80008000u);
    }
  }

  // Returns the dropout bits of row 8 * row + lane / 4 of the warp. Bit 8 + n states whether column 8 n + 2 (lane % 4) is kept, and bit 24
  // + n whether the column after it is. Requires: draw() was called for all parts.
  __device__ uint32_t bits(int row) const {
    return bits_[row];
  }
  __device__ bool keeps(int row, int n, int column) const {
    return (bits_[row] & 1u << (8 + n + 16 * column)) != 0;
  }
  // Returns a mask of two 16-bit elements: all bits of the lower half are set if bit 8 + n of bits(row) is set, those of the upper half if
  // bit 24 + n is.
  __device__ uint32_t mask(int row, int n) const {
    uint32_t mask;  // each half becomes all ones if its top bit is set, otherwise zero
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(mask) : "r"(bits_[row] << (7 - n)));
    return mask;
  }

  // Stores the dropout bits in scratch memory, in the layout that the kernel for d_k and d_v reads.
  __device__ void store(const AttentionKernelArgs& args, const Work& work, int warp_row, int key) const {
    if (args.keep == nullptr) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int num_words = (args.longest + 31) / 32;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int query = work.row + warp_row + 8 * row + lane / 4;
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        if (query >= work.count || key + 32 * group >= work.count) continue;
        const int64_t word = static_cast<int64_t>(work.head) * num_words + key / 32 + group;
        auto* bytes = reinterpret_cast<uint8_t*>(args.keep + word * args.tokens + work.first + query);
        bytes[lane % 4] = static_cast<uint8_t>((bits_[row] >> (8 + 4 * group) & 0xfu) |
                                               (bits_[row] >> (20 + 4 * group) & 0xf0u));
      }
    }
  }

 private:
  uint32_t row_ = 0, block_ = 0;
  BlockStart start_;
  uint32_t bits_[kRows] = {};
};

template <int kN>
__device__ inline void clear(float (&acc)[kN]) {
#pragma unroll
  for (float& x : acc) x = 0.0f;
}
template <int kM, int kN, int kE>
__device__ inline void clear(float (&acc)[kM][kN][kE]) {
#pragma unroll
  for (auto& rows : acc) {
#pragma unroll
    for (auto& x : rows) clear(x);
  }
}

// Return the sum and the maximum over the four lanes that hold elements of the same row, in a fixed order. All four lanes get the result.
__device__ inline float sum_of_quad(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float max_of_quad(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

}  // namespace plimsoll::attention
