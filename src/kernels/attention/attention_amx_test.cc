#include "kernels/attention/attention_amx.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/philox.h"
#include "device/cpu/amx_tiles.h"
#include "device/cpu/cpu_features.h"
#include "tests/support/compare.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

// Returns a number in [-1, 1) that bf16 represents exactly; `i` is the Philox counter.
double number(int64_t i, uint32_t stream) {
  const auto words = philox4x32_10({static_cast<uint32_t>(i), stream, 0, 0}, {17, 19});
  return (static_cast<double>(words[0] % 256) - 128.0) / 128.0;
}

struct Sizes {
  int64_t rows, columns, depth;
};

// Checks that a product is exact. The operands have eight significant bits and a sum has at most 2^8 products of them, so fp32 sums are
// exact in any order.
void expect_exact(const Sizes& s, LeftOperand left, ProductStart start) {
  SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.columns) + " x " + std::to_string(s.depth));
  const bool by_row = left == LeftOperand::kByRow;
  const int64_t columns = (s.columns + 15) / 16 * 16;
  const int64_t lda = (by_row ? s.depth : s.rows) + 3, ldb = columns + 16, ldc = columns + 5;
  // The padding elements at the end of each row of A are NaN. If multiply_amx read them, the results would be NaN.
  GuardedBuffer a("amx/a", DType::kF32, ((by_row ? s.rows : s.depth) - 1) * lda + lda - 3);
  GuardedBuffer b("amx/b", DType::kF32, (s.depth - 1) * ldb + columns);
  GuardedBuffer c("amx/c", DType::kF32, (s.rows - 1) * ldc + columns);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t k = 0; k < s.depth; ++k) {
      a.view().store(by_row ? i * lda + k : k * lda + i, number(i * s.depth + k, 0));
    }
  }
  for (int64_t i = 0; i < b.count(); ++i) b.view().store(i, number(i, 1));
  for (int64_t i = 0; i < c.count(); ++i) c.view().store(i, number(i, 2));
  const std::vector<double> before = c.to_doubles();
  configure_amx_tiles();
  multiply_amx({.rows = s.rows,
                .columns = s.columns,
                .depth = s.depth,
                .a = a.view().as<float>(),
                .lda = lda,
                .b = b.view().as<float>(),
                .ldb = ldb,
                .c = c.view().as<float>(),
                .ldc = ldc,
                .left = left,
                .start = start});
  release_amx_tiles();
  EXPECT_EQ(c.broken_guard(), GuardedBuffer::kIntact);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t j = 0; j < s.columns; ++j) {
      double want = start == ProductStart::kStored ? before[static_cast<size_t>(i * ldc + j)] : 0.0;
      for (int64_t k = 0; k < s.depth; ++k) want += number(i * s.depth + k, 0) * number(k * ldb + j, 1);
      ASSERT_EQ(c.view().load(i * ldc + j), want) << "row " << i << ", column " << j;
    }
    // multiply_amx may write up to the next multiple of 16 columns, but nothing after it.
    for (int64_t j = columns; j < ldc && i + 1 < s.rows; ++j) {
      ASSERT_EQ(c.view().load(i * ldc + j), before[static_cast<size_t>(i * ldc + j)])
          << "row " << i << ", column " << j;
    }
  }
}

TEST(AttentionAmx, ProductsOfSmallNumbersAreExact) {
  if (!may_use_amx_tiles()) GTEST_SKIP() << "this CPU has no AMX tiles, or the system grants none";
  int cases = 0;
  for (const int64_t rows : {1, 15, 16, 17, 33, 48, 64, 65, 130}) {
    for (const int64_t columns : {1, 16, 31, 32, 48, 64, 80, 128}) {
      for (const int64_t depth : {1, 2, 31, 32, 33, 64, 65, 200}) {
        for (const LeftOperand left : {LeftOperand::kByRow, LeftOperand::kByDepth}) {
          for (const ProductStart start : {ProductStart::kZero, ProductStart::kStored}) {
            expect_exact({rows, columns, depth}, left, start);
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 9 * 8 * 8 * 4);
}

}  // namespace
}  // namespace plimsoll
