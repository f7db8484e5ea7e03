// The matrix products of attention on small fp32 tiles, and the packing of rows into these tiles. The functions are compiled once per
// instruction set. Include this file after hwy/highway.h in a source file that Highway's foreach_target.h includes repeatedly.
//
// Numerics: every element of a product is summed by fused multiply-adds in the order of its terms, starting from zero or from the stored
// fp32 value. The division into tiles therefore changes no bit.
#if defined(PLIMSOLL_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_ATTENTION_TILES_INL_H_
#undef PLIMSOLL_ATTENTION_TILES_INL_H_
#else
#define PLIMSOLL_ATTENTION_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "base/view.h"
#include "device/cpu/amx_tiles.h"
#include "device/cpu/cpu_features.h"
#include "kernels/attention/attention_amx.h"
#include "kernels/attention/attention_catalog.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;
HWY_INLINE constexpr int64_t lanes() {
  return static_cast<int64_t>(hn::MaxLanes(Floats()));
}

// The number of accumulators (vectors of sums) that a matrix product keeps in registers: 8 rows x 2 vectors on instruction sets with 32
// vector registers, 6 x 2 on those with 16. Of nine measured shapes, these were the fastest for sums of 64 terms: 180 of at most 186
// GFLOP/s with 512-bit vectors at 2.9 GHz, and 71 GFLOP/s with 256-bit vectors.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 6;
#endif
inline constexpr int kTileVectors = 2;

template <int kRows, int kVectors, LeftOperand kLeft>
HWY_NOINLINE void multiply_tile(int64_t depth, const float* HWY_RESTRICT a, int64_t lda,
                                const float* HWY_RESTRICT b, int64_t ldb, float* HWY_RESTRICT c, int64_t ldc,
                                ProductStart start) {
  const Floats df;
  FloatVec sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (int n = 0; n < kVectors; ++n) {
      sum[r][n] = start == ProductStart::kZero ? hn::Zero(df) : hn::LoadU(df, c + r * ldc + n * lanes());
    }
  }
  HWY_UNROLL(1)
  for (int64_t k = 0; k < depth; ++k) {
    FloatVec right[kVectors];
    HWY_UNROLL(2)
    for (int n = 0; n < kVectors; ++n) right[n] = hn::LoadU(df, b + k * ldb + n * lanes());
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FloatVec left = hn::Set(df, kLeft == LeftOperand::kByRow ? a[r * lda + k] : a[k * lda + r]);
      HWY_UNROLL(2)
      for (int n = 0; n < kVectors; ++n) sum[r][n] = hn::MulAdd(left, right[n], sum[r][n]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[r][n], df, c + r * ldc + n * lanes());
  }
}

// Computes kVectors vectors of columns of a matrix product for all rows: kTileRows rows at a time, and the remaining rows four, two and one
// at a time.
template <int kVectors, LeftOperand kLeft>
void multiply_panel(int64_t rows, int64_t depth, const float* a, int64_t lda, const float* b, int64_t ldb,
                    float* c, int64_t ldc, ProductStart start) {
  const int64_t a_row = kLeft == LeftOperand::kByRow ? lda : 1;
  int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    multiply_tile<kTileRows, kVectors, kLeft>(depth, a + r * a_row, lda, b, ldb, c + r * ldc, ldc, start);
  }
  for (; r + 4 <= rows; r += 4) {
    multiply_tile<4, kVectors, kLeft>(depth, a + r * a_row, lda, b, ldb, c + r * ldc, ldc, start);
  }
  for (; r + 2 <= rows; r += 2) {
    multiply_tile<2, kVectors, kLeft>(depth, a + r * a_row, lda, b, ldb, c + r * ldc, ldc, start);
  }
  for (; r < rows; ++r) {
    multiply_tile<1, kVectors, kLeft>(depth, a + r * a_row, lda, b, ldb, c + r * ldc, ldc, start);
  }
}

// Computes c = a b or c += a b for matrices a[rows x depth] and b[depth x columns]; b and c are stored by rows. Whole vectors are written,
// so ldb and ldc must be at least `columns` rounded up to lanes(). The depth is divided into blocks, so that the rows of b that are in use
// stay in the L1 cache.
template <LeftOperand kLeft>
void multiply(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t lda, const float* b,
              int64_t ldb, float* c, int64_t ldc, ProductStart start) {
  constexpr int64_t kDepthBlock = 2 * kAttentionTile;
  for (int64_t k = 0; k < depth; k += kDepthBlock) {
    const int64_t block = std::min(kDepthBlock, depth - k);
    const float* a_block = a + k * (kLeft == LeftOperand::kByRow ? 1 : lda);
    const float* b_block = b + k * ldb;
    int64_t n = 0;
    for (; n + lanes() < columns; n += kTileVectors * lanes()) {
      multiply_panel<kTileVectors, kLeft>(rows, block, a_block, lda, b_block + n, ldb, c + n, ldc, start);
    }
    if (n < columns) multiply_panel<1, kLeft>(rows, block, a_block, lda, b_block + n, ldb, c + n, ldc, start);
    start = ProductStart::kStored;
  }
}

// Multiplies fp32 tiles. If `amx` is true, rounds their elements to bf16 and multiplies them with AMX (attention_amx.h). Requires: if `amx`
// is true, this thread has configured its AMX tiles.
template <LeftOperand kLeft>
void multiply(bool amx, int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t lda,
              const float* b, int64_t ldb, float* c, int64_t ldc, ProductStart start) {
  if (!amx) return multiply<kLeft>(rows, columns, depth, a, lda, b, ldb, c, ldc, start);
  multiply_amx({.rows = rows,
                .columns = columns,
                .depth = depth,
                .a = a,
                .lda = lda,
                .b = b,
                .ldb = ldb,
                .c = c,
                .ldc = ldc,
                .left = kLeft,
                .start = start});
}

// Returns true if the kernels for this instruction set use AMX for bf16 products. Only the kernels with 512-bit vectors do, so that the
// tests of other instruction sets also test their matrix products.
inline bool uses_amx(DType dtype) {
#if HWY_TARGET <= HWY_AVX3
  return dtype == DType::kBF16 && may_use_amx_tiles();
#else
  static_cast<void>(dtype);
  return false;
#endif
}

// Computes the heads of a task one after another. For each head it calls of_bf16 if q is bf16, otherwise of_f32.
template <typename Task, typename Head>
void run_heads(Task& task, Head* of_f32, Head* of_bf16) {
  const DType dtype = task.args.q.view.dtype;
  task.amx = uses_amx(dtype);
  if (task.amx) configure_amx_tiles();
  for (; task.h < task.end_head; ++task.h) (dtype == DType::kBF16 ? of_bf16 : of_f32)(task);
  if (task.amx) release_amx_tiles();
}

HWY_INLINE FloatVec load_floats(const float* from) {
  return hn::LoadU(Floats(), from);
}
HWY_INLINE FloatVec load_floats(const BF16* from) {
  const hn::Rebind<uint16_t, Floats> d16;
  const hn::RebindToUnsigned<Floats> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
HWY_INLINE void store_floats(FloatVec value, float* to) {
  hn::StoreU(value, Floats(), to);
}
// Rounds fp32 to bf16, to nearest, ties to even. A NaN stays a quiet NaN.
HWY_INLINE void store_floats(FloatVec value, BF16* to) {
  const hn::Rebind<uint16_t, Floats> d16;
  const hn::RebindToUnsigned<Floats> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto result = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<decltype(d32)>(), result)), d16,
             reinterpret_cast<uint16_t*>(to));
}
inline float load_one(const float* from) {
  return *from;
}
inline float load_one(const BF16* from) {
  return bf16_to_f32(from->bits);
}
inline void store_one(float value, float* to) {
  *to = value;
}
inline void store_one(float value, BF16* to) {
  to->bits = f32_to_bf16(value);
}

// Copies `count` rows of head_dim elements into a tile of fp32 rows, padded with zeros to
// attention_padded_dim, and appends zero rows up to a multiple of 16.
template <typename T>
void pack_rows(const T* from, int64_t row_stride, int64_t count, int64_t head_dim, float* tile) {
  const int64_t row = attention_padded_dim(head_dim);
  for (int64_t i = 0; i < count; ++i) {
    int64_t d = 0;
    for (; d + lanes() <= head_dim; d += lanes()) {
      hn::StoreU(load_floats(from + i * row_stride + d), Floats(), tile + i * row + d);
    }
    for (; d < head_dim; ++d) tile[i * row + d] = load_one(from + i * row_stride + d);
    for (; d < row; ++d) tile[i * row + d] = 0.0f;
  }
  std::fill(tile + count * row, tile + attention_round_up(count, 16) * row, 0.0f);
}

// Stores `count` rows of an fp32 tile in the type of the tensor. Row i is multiplied by factors[i * factor_step].
template <typename T>
void unpack_rows(const float* tile, int64_t count, int64_t head_dim, const float* factors,
                 int64_t factor_step, T* to, int64_t row_stride) {
  const int64_t row = attention_padded_dim(head_dim);
  for (int64_t i = 0; i < count; ++i) {
    const float factor = factors[i * factor_step];
    int64_t d = 0;
    for (; d + lanes() <= head_dim; d += lanes()) {
      const FloatVec value = hn::Mul(hn::LoadU(Floats(), tile + i * row + d), hn::Set(Floats(), factor));
      store_floats(value, to + i * row_stride + d);
    }
    for (; d < head_dim; ++d) store_one(tile[i * row + d] * factor, to + i * row_stride + d);
  }
}

// Transposes a tile of up to 64 rows: to[d * 64 + i] = tile[i * row + d], for i up to `count` rounded up to a multiple of 16 and d up to
// head_dim rounded up to a multiple of 4.
#if HWY_TARGET == HWY_SCALAR
inline void transpose_tile(const float* tile, int64_t count, int64_t head_dim, float* to) {
  const int64_t row = attention_padded_dim(head_dim);
  for (int64_t i = 0; i < attention_round_up(count, 16); ++i) {
    for (int64_t d = 0; d < head_dim; ++d) to[d * kAttentionTile + i] = tile[i * row + d];
  }
}
#else
// The index of each lane of a vector, as Highway's Iota returns it. Iota writes the numbers to memory at every call, and GCC 12 neither
// inlines it nor moves it out of a loop, which took 9 % of the time of a training step of a GPT-2 of width 192.
alignas(64) inline constexpr float kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static_assert(hn::MaxLanes(Floats()) <= 16);

// Loads four floats into each 128-bit block of the vector, each block from its own row. The rows are 4 * row floats apart.
HWY_INLINE FloatVec gather_blocks(const float* from, int64_t row) {
  const Floats df;
  FloatVec blocks = hn::LoadDup128(df, from);
  HWY_UNROLL(4)
  for (int64_t b = 1; b < lanes() / 4; ++b) {
    const auto below = hn::Lt(hn::Load(df, kLaneNumbers), hn::Set(df, static_cast<float>(4 * b)));
    blocks = hn::IfThenElse(below, blocks, hn::LoadDup128(df, from + 4 * b * row));
  }
  return blocks;
}

inline void transpose_tile(const float* tile, int64_t count, int64_t head_dim, float* to) {
  const Floats df;
  const hn::Repartition<uint64_t, Floats> d64;
  const int64_t row = attention_padded_dim(head_dim);
  for (int64_t i = 0; i < attention_round_up(count, 16); i += lanes()) {
    for (int64_t d = 0; d < head_dim; d += 4) {
      const float* from = tile + i * row + d;
      const FloatVec r0 = gather_blocks(from, row);
      const FloatVec r1 = gather_blocks(from + row, row);
      const FloatVec r2 = gather_blocks(from + 2 * row, row);
      const FloatVec r3 = gather_blocks(from + 3 * row, row);
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(df, r0, r1));
      const auto low23 = hn::BitCast(d64, hn::InterleaveLower(df, r2, r3));
      const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(df, r0, r1));
      const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(df, r2, r3));
      float* column = to + d * kAttentionTile + i;
      hn::StoreU(hn::BitCast(df, hn::InterleaveLower(d64, low01, low23)), df, column);
      hn::StoreU(hn::BitCast(df, hn::InterleaveUpper(d64, low01, low23)), df, column + kAttentionTile);
      hn::StoreU(hn::BitCast(df, hn::InterleaveLower(d64, high01, high23)), df, column + 2 * kAttentionTile);
      hn::StoreU(hn::BitCast(df, hn::InterleaveUpper(d64, high01, high23)), df, column + 3 * kAttentionTile);
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif
