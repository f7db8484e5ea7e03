// The matrix products of attention in bf16 on AMX tiles: what attention_tiles-inl.h does in fp32, on the same
// fp32 operands, which are rounded to bf16 on their way into the tiles. Operands that were bf16 before lose
// nothing; probabilities and gradients of scores are rounded once (attention.h has what that does to
// results).
//
// Numerics: products of pairs are exact, sums are in fp32 in an order that depends on the depth alone;
// numbers below fp32's normal range count as zero.
//
// Thread-safe: pure on distinct memory. Requires everywhere: may_use_amx_tiles() of
// device/cpu/cpu_features.h.
#pragma once

#include <cstdint>

namespace plimsoll {

// Whether the left operand is stored by rows of the result (a[row * lda + k]) or by depth (a[k * lda + row]).
enum class LeftOperand : uint8_t { kByRow, kByDepth };
enum class ProductStart : uint8_t { kZero, kStored };

struct AmxProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;  // [depth][ldb]
  int64_t ldb = 0;
  float* c = nullptr;  // [rows][ldc]
  int64_t ldc = 0;
  LeftOperand left = LeftOperand::kByRow;
  ProductStart start = ProductStart::kZero;
};

// c = (or +=) a b. Requires: configure_amx_tiles() of device/cpu/amx_tiles.h on this thread; columns rounded
// up to 16 lie within ldb and ldc (they are written; what b holds there is finite).
void multiply_amx(const AmxProduct& product);

}  // namespace plimsoll
