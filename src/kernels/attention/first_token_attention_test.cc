#include "kernels/attention/first_token_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/catalog/catalog.h"
#include "tests/support/compare.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

// Compares the reference with the same computation done the usual way: projections of all rows, then full attention, of whose output only
// the first row per sequence is used.
TEST(FirstTokenAttention, TheReferenceIsAttentionOfProjections) {
  const AttentionDims dims{.tokens = 12, .sequences = 4, .longest = 6, .heads = 2, .head_dim = 3};
  constexpr int64_t kColumns = 5, kWidth = 6;
  GuardedBuffer x("first/x", DType::kF64, dims.tokens * kColumns),
      w("first/w", DType::kF64, 3 * kWidth * kColumns);
  GuardedBuffer bias("first/bias", DType::kF64, 3 * kWidth), cu("first/cu", DType::kI32, dims.sequences + 1);
  GuardedBuffer qkv("first/qkv", DType::kF64, dims.tokens * 3 * kWidth),
      all("first/all", DType::kF64, 12 * kWidth);
  GuardedBuffer o("first/o", DType::kF64, dims.sequences * kWidth);
  GuardedBuffer scratch("first/scratch", DType::kU8, attention_fwd_ref_scratch_bytes(dims));
  x.fill_normal();
  w.fill_normal();
  bias.fill_normal();
  constexpr int32_t kFirst[] = {0, 4, 4, 10, 11};
  for (int64_t b = 0; b <= dims.sequences; ++b) cu.view().store(b, kFirst[b]);
  const FirstTokenAttentionArgs args{.dims = dims,
                                     .columns = kColumns,
                                     .scale = 0.7,
                                     .x_TC = x.view(),
                                     .w_3HDC = w.view(),
                                     .bias_3HD = bias.view(),
                                     .cu_seqlens = cu.view(),
                                     .o_BHD = o.view()};
  first_token_attention_ref(args);
  for (int64_t t = 0; t < dims.tokens; ++t) {
    for (int64_t n = 0; n < 3 * kWidth; ++n) {
      double sum = bias.load(n);
      for (int64_t c = 0; c < kColumns; ++c) sum += x.load(t * kColumns + c) * w.load(n * kColumns + c);
      qkv.view().store(t * 3 * kWidth + n, sum);
    }
  }
  const auto rows = [&](int64_t part) {
    ConstView view = qkv.view();
    view.data = qkv.view().as<double>() + part * kWidth;
    return ConstRows{.view = view, .row_stride = 3 * kWidth};
  };
  attention_fwd_ref({.dims = dims,
                     .options = {.scale = 0.7},
                     .q = rows(0),
                     .k = rows(1),
                     .v = rows(2),
                     .cu_seqlens = cu.view(),
                     .o = all.view(),
                     .lse = {},
                     .scratch = scratch.view(),
                     .scratch_bytes = attention_fwd_ref_scratch_bytes(dims)});
  for (int64_t b = 0; b < dims.sequences; ++b) {
    for (int64_t n = 0; n < kWidth; ++n) {
      const double want = kFirst[b] < kFirst[b + 1] ? all.load(kFirst[b] * kWidth + n) : 0.0;
      EXPECT_NEAR(o.load(b * kWidth + n), want, 1e-13) << b << ", " << n;
    }
  }
  for (const double bound : first_token_attention_error_bounds(args)) {
    EXPECT_GE(bound, 0.0);
    EXPECT_LT(bound, 10.0);
  }
}

Problem problem(int64_t columns, int64_t heads, int64_t head_dim, int sm = 90, DType dtype = DType::kBF16) {
  return {
      .kernel = "first_token_attention",
      .dtype = dtype,
      .target = {.device = KernelDevice::kCuda, .sm = sm},
      .family = FirstTokenAttentionProblem{
          .dims = {.tokens = 32768, .sequences = 64, .longest = 512, .heads = heads, .head_dim = head_dim},
          .columns = columns,
          .w = dtype}};
}

TEST(FirstTokenAttention, HopperTakesTheSizesItIsCompiledFor) {
  EXPECT_NE(select_kernel(problem(1024, 16, 64)).row, nullptr);
  EXPECT_NE(select_kernel(problem(384, 12, 32, 90, DType::kF16)).row, nullptr);
  EXPECT_EQ(select_kernel(problem(1024, 16, 64, 90, DType::kF32)).row, nullptr);
  const Selection other_card = select_kernel(problem(1024, 16, 64, 80));
  ASSERT_EQ(other_card.row, nullptr);
  EXPECT_NE(other_card.refused.front().reason.find("this GPU has 8.0"), std::string::npos);
  const Selection narrow = select_kernel(problem(128, 2, 64));
  ASSERT_EQ(narrow.row, nullptr);
  EXPECT_NE(narrow.refused.front().reason.find("but there are 128 columns and 2 heads of size 64"),
            std::string::npos);
}

TEST(FirstTokenAttention, PartsAreAtMost32) {
  EXPECT_EQ(first_token_attention_parts(512), 2);
  EXPECT_EQ(first_token_attention_parts(1), 1);
  EXPECT_EQ(first_token_attention_parts(8192), 32);
  EXPECT_EQ(first_token_attention_part_rows(8193), 288);
  for (const int64_t longest : {8193, 12000, 1 << 20}) EXPECT_LE(first_token_attention_parts(longest), 32);
}

}  // namespace
}  // namespace plimsoll
