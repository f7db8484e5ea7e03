#include "kernels/loss/top_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

struct Top {
  std::vector<double> values;
  std::vector<int32_t> ids;
  std::vector<double> log_sums;
};

template <typename Kernel>
Top top_of(const Kernel& kernel, GuardedBuffer& logits, int64_t rows, int64_t k) {
  GuardedBuffer values("values", DType::kF32, rows * k), ids("ids", DType::kI32, rows * k),
      log_sums("log_sums", DType::kF64, rows);
  kernel({.logits_BV = logits.view(),
          .values_BK = values.view(),
          .ids_BK = ids.view(),
          .log_sum_B = log_sums.view(),
          .num_rows = rows,
          .num_classes = logits.count() / rows,
          .k = k});
  for (const GuardedBuffer* buffer : {&values, &ids, &log_sums})
    EXPECT_EQ(buffer->broken_guard(), GuardedBuffer::kIntact);
  const auto* first = ids.view().as<int32_t>();
  return {values.to_doubles(), {first, first + rows * k}, log_sums.to_doubles()};
}

// The largest logits must be the first ones of the sorted row. The logits are small integers, so that many of them are equal.
TEST(TopLogits, AreTheFirstOfASortedRow) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [classes, k] : {std::pair{1, 1}, {2, 2}, {7, 3}, {64, 64}, {1000, 8}, {5003, 17}}) {
      const int64_t rows = 5;
      GuardedBuffer logits("top_logits_" + std::to_string(classes), dtype, rows * classes);
      logits.fill_small_integers();
      const auto check = [&](const auto& kernel) {
        const Top top = top_of(kernel, logits, rows, k);
        for (int64_t b = 0; b < rows; ++b) {
          std::vector<int32_t> order(static_cast<size_t>(classes));
          std::iota(order.begin(), order.end(), 0);
          const auto value = [&](int32_t v) { return logits.load(b * classes + v); };
          std::ranges::stable_sort(order, [&](int32_t a, int32_t c) { return value(a) > value(c); });
          double sum = 0.0;
          for (const int32_t v : order) sum += std::exp(value(v));
          for (int64_t i = 0; i < k; ++i) {
            const auto at = static_cast<size_t>(b * k + i);
            EXPECT_EQ(top.ids[at], order[static_cast<size_t>(i)]);
            EXPECT_EQ(top.values[at], value(order[static_cast<size_t>(i)]));
          }
          EXPECT_NEAR(top.log_sums[static_cast<size_t>(b)], std::log(sum), 1e-12);
        }
      };
      check(top_logits_ref);
      test::FastRows(top_logits_ref).for_each(dtype, check);
    }
  }
}

TEST(TopLogits, NonFiniteLogitsAreVisible) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  GuardedBuffer logits("logits", DType::kF32, 12);
  const std::vector<double> rows{nan, 2, 1, inf, 0, 1, -inf, -inf, -inf, -inf, 3, nan};
  logits.assign(rows);
  for (auto* kernel : {top_logits_ref, top_logits_cpu}) {
    const Top top = top_of(kernel, logits, 4, 2);
    EXPECT_EQ(top.ids, (std::vector<int32_t>{1, 2, 0, 2, 0, 0, 1, 0}));
    EXPECT_TRUE(std::isnan(top.log_sums[0]));
    EXPECT_TRUE(std::isnan(top.log_sums[1]));
    EXPECT_EQ(top.log_sums[2], -inf);
    EXPECT_TRUE(std::isnan(top.log_sums[3]));
  }
}

}  // namespace
}  // namespace plimsoll
