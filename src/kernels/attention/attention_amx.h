// The matrix products of attention in bf16 on AMX tiles. They replace those of attention_tiles-inl.h for the same fp32 operands, which are
// rounded to bf16 when they are loaded into the tiles. Operands that come from bf16 tensors are not changed by this rounding; probabilities
// and gradients of scores are rounded once (attention.h states the effect on the results).
//
// Numerics: products of pairs are exact. Sums are in fp32, in an order that depends only on the number of terms. Numbers below fp32's
// normal range count as zero.
//
// Thread-safe: pure on distinct memory. Every function requires may_use_amx_tiles() of
// device/cpu/cpu_features.h.
#pragma once

#include <cstdint>

namespace plimsoll {

// States how the left operand is stored: row by row (a[row * lda + k]) or transposed (a[k * lda + row]).
enum class LeftOperand : uint8_t { kByRow, kByDepth };
enum class ProductStart : uint8_t { kZero, kStored };

struct AmxProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;  // matrix of [depth][ldb] elements, stored by rows
  int64_t ldb = 0;
  float* c = nullptr;  // matrix of [rows][ldc] elements, stored by rows
  int64_t ldc = 0;
  LeftOperand left = LeftOperand::kByRow;
  ProductStart start = ProductStart::kZero;
};

// Computes c = a b or c += a b. Requires: this thread has called configure_amx_tiles() of
// device/cpu/amx_tiles.h; ldb and ldc are at least `columns` rounded up to 16. The padding columns of c are
// written, and those of b must be finite.
void multiply_amx(const AmxProduct& product);

}  // namespace plimsoll
