#include "kernels/element_wise/column_range.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

struct Range {
  int64_t first, K;
};
std::vector<Range> ranges_of(int64_t N) {
  return {{0, N}, {0, (N + 1) / 2}, {N / 2, N - N / 2}, {N / 3, std::max<int64_t>(1, N / 3)}};
}

TEST(Columns, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      for (const Range range : ranges_of(shape.C)) {
        const int64_t n = shape.T * range.K;
        GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size());
        GuardedBuffer want("want", DType::kF64, n);
        x.fill_normal();
        const double scale = 1.7;
        columns_fwd_ref({x.view(), want.view(), shape.T, shape.C, range.K, range.first, scale});
        for (int64_t i = 0; i < n; ++i) {
          EXPECT_EQ(want.load(i), scale * x.load(i / range.K * shape.C + range.first + i % range.K));
        }
        std::vector<double> bounds;
        for (int64_t i = 0; i < n; ++i) bounds.push_back(columns_error_bound(want.load(i), dtype));
        FastRows(columns_fwd_ref).for_each(dtype, [&](const auto& columns) {
          GuardedBuffer y("y", dtype, n);
          run_with_one_and_two_threads({&y}, [&] {
            columns({x.view(), y.view(), shape.T, shape.C, range.K, range.first, scale});
          });
          EXPECT_TRUE(compare(y, want, limit_of(bounds)).ok()) << compare(y, want, limit_of(bounds));
        });
      }
    }
  }
}

TEST(AddColumns, AgreesWithTheReferenceAlsoInPlace) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      for (const Range range : ranges_of(shape.C)) {
        GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size());
        GuardedBuffer y(tensor_name("y", shape, dtype), dtype, shape.T * range.K);
        GuardedBuffer want("want", DType::kF64, shape.size());
        x.fill_normal();
        y.fill_normal();
        add_columns_fwd_ref({x.view(), y.view(), want.view(), shape.T, shape.C, range.K, range.first});
        std::vector<double> bounds;
        for (int64_t i = 0; i < shape.size(); ++i) bounds.push_back(columns_error_bound(want.load(i), dtype));
        FastRows(add_columns_fwd_ref).for_each(dtype, [&](const auto& add_columns) {
          GuardedBuffer z("z", dtype, shape.size());
          run_with_one_and_two_threads({&z}, [&] {
            add_columns({x.view(), y.view(), z.view(), shape.T, shape.C, range.K, range.first});
          });
          EXPECT_TRUE(compare(z, want, limit_of(bounds)).ok()) << compare(z, want, limit_of(bounds));
          GuardedBuffer in_place("in place", dtype, shape.size());
          in_place.assign(x.to_doubles());
          add_columns({in_place.view(), y.view(), in_place.view(), shape.T, shape.C, range.K, range.first});
          EXPECT_TRUE(compare_bits(in_place, z).ok());
        });
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
