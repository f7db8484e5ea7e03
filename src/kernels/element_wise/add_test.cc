#include "kernels/element_wise/add.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

TEST(Add, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      const int64_t n = shape.size();
      GuardedBuffer a(tensor_name("a", shape, dtype), dtype, n);
      GuardedBuffer b(tensor_name("b", shape, dtype), dtype, n);
      GuardedBuffer want("want", DType::kF64, n);
      a.fill_normal();
      b.fill_normal();
      add_fwd_ref({a.view(), b.view(), want.view(), n});
      std::vector<double> bounds;
      for (int64_t i = 0; i < n; ++i) bounds.push_back(add_fwd_error_bound(want.load(i), dtype));
      FastRows(add_fwd_ref).for_each(dtype, [&](const auto& add) {
        GuardedBuffer c("c", dtype, n);
        run_with_one_and_two_threads({&c}, [&] { add({a.view(), b.view(), c.view(), n}); });
        EXPECT_TRUE(compare(c, want, limit_of(bounds)).ok()) << compare(c, want, limit_of(bounds));
        GuardedBuffer in_place("in place", dtype, n);
        in_place.assign(a.to_doubles());
        add({in_place.view(), b.view(), in_place.view(), n});
        EXPECT_TRUE(compare_bits(in_place, c).ok());
      });
    }
  }
}

TEST(Add, NeedsNoAlignment) {
  GuardedBuffer a(tensor_name("a", {1, 101}, DType::kF32), DType::kF32, 101);
  a.fill_normal();
  FastRows(add_fwd_ref).for_each(DType::kF32, [&](const auto& add) {
    GuardedBuffer c("c", DType::kF32, 100);
    add({a.view_from(1), a.view_from(1), c.view(), 100});
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(c.load(i), 2.0 * a.load(i + 1));
  });
}

TEST(Accumulate, AddsOrOverwritesAsTheReferenceDoes) {
  for (const DType dtype : fast_types()) {
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      GuardedBuffer into("into", dtype, 101), d("d", dtype, 101), want("want", dtype, 101);
      into.fill_normal();
      d.fill_normal();
      accumulate_ref({{into.view(), d.view(), want.view(), 101}, accumulate});
      FastRows(accumulate_ref).for_each(dtype, [&](const auto& accumulate_kernel) {
        GuardedBuffer sum("sum", dtype, 101);
        sum.assign(into.to_doubles());
        accumulate_kernel({{sum.view(), d.view(), sum.view(), 101}, accumulate});
        EXPECT_TRUE(compare_bits(sum, want).ok()) << compare_bits(sum, want);
      });
    }
  }
}

TEST(BiasAdd, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      for (const DType parameters : fast_types()) {
        GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size());
        GuardedBuffer b(tensor_name("b", shape, parameters), parameters, shape.C);
        GuardedBuffer want("want", DType::kF64, shape.size());
        x.fill_normal();
        b.fill_normal();
        bias_add_fwd_ref({x.view(), b.view(), want.view(), shape.T, shape.C});
        std::vector<double> bounds;
        for (int64_t i = 0; i < shape.size(); ++i) bounds.push_back(add_fwd_error_bound(want.load(i), dtype));
        FastRows(bias_add_fwd_ref).for_each(dtype, [&](const auto& bias_add) {
          GuardedBuffer y("y", dtype, shape.size());
          run_with_one_and_two_threads({&y}, [&] {
            bias_add({x.view(), b.view(), y.view(), shape.T, shape.C});
          });
          EXPECT_TRUE(compare(y, want, limit_of(bounds)).ok()) << compare(y, want, limit_of(bounds));
        });
      }
    }
  }
}

// Returns the sum of the magnitudes of each column, from which column_sum_error_bound computes the error bound.
std::vector<double> column_magnitudes(const GuardedBuffer& values, RowsAndColumns shape) {
  std::vector<double> sums(static_cast<size_t>(shape.C), 0.0);
  for (int64_t i = 0; i < shape.size(); ++i)
    sums[static_cast<size_t>(i % shape.C)] += std::abs(values.load(i));
  return sums;
}

TEST(BiasGrad, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      for (const DType sum_type : {DType::kF32, DType::kBF16, DType::kF64}) {
        GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, shape.size());
        GuardedBuffer before(tensor_name("before", shape, sum_type), sum_type, shape.C);
        d_y.fill_normal();
        before.fill_normal();
        for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
          GuardedBuffer want("want", DType::kF64, shape.C);
          want.assign(before.to_doubles());
          bias_grad_ref({d_y.view(), want.view(), {}, shape.T, shape.C, accumulate});
          std::vector<double> bounds = column_magnitudes(d_y, shape);
          for (int64_t c = 0; c < shape.C; ++c) {
            double& bound = bounds[static_cast<size_t>(c)];
            bound = column_sum_error_bound(shape.T, shape.C, bound + std::abs(before.load(c)), 0.0,
                                           want.load(c), sum_type);
          }
          FastRows(bias_grad_ref)
              .for_each(dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& bias_grad) {
                GuardedBuffer d_b("d_b", sum_type, shape.C);
                if (accumulate == Accumulate::kAdd) d_b.assign(before.to_doubles());
                GuardedBuffer scratch = scratch_of(bias_grad.scratch_bytes());
                run_with_one_and_two_threads({&d_b}, [&] {
                  bias_grad({d_y.view(), d_b.view(), scratch.view(), shape.T, shape.C, accumulate});
                });
                EXPECT_TRUE(compare(d_b, want, limit_of(bounds)).ok())
                    << compare(d_b, want, limit_of(bounds));
                EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
              });
        }
      }
    }
  }
}

TEST(BiasGrad, IsExactIfEverySumIs) {
  const RowsAndColumns shape{301, 130};
  GuardedBuffer d_y(tensor_name("d_y", shape, DType::kF32), DType::kF32, shape.size());
  d_y.fill_small_integers();
  GuardedBuffer want("want", DType::kF32, shape.C);
  bias_grad_ref({d_y.view(), want.view(), {}, shape.T, shape.C});
  for_each_simd_target([&] {
    GuardedBuffer d_b("d_b", DType::kF32, shape.C);
    GuardedBuffer scratch = scratch_of(bias_grad_scratch_bytes(shape.T, shape.C));
    bias_grad_cpu({d_y.view(), d_b.view(), scratch.view(), shape.T, shape.C});
    EXPECT_TRUE(compare(d_b, want, {}).ok()) << compare(d_b, want, {});
  });
}

TEST(BiasGrad, NoRowsGiveZero) {
  GuardedBuffer d_y("d_y", DType::kF32, 1);
  GuardedBuffer scratch = scratch_of(64);
  GuardedBuffer d_b("d_b", DType::kF32, 3);
  bias_grad_cpu({d_y.view(), d_b.view(), scratch.view(), 0, 3});
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(d_b.load(c), 0.0);
}

TEST(BiasGrad, IsTheDerivativeOfBiasAdd) {
  const RowsAndColumns shape{4, 5};
  GuardedBuffer x(tensor_name("x", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer b(tensor_name("b", shape, DType::kF64), DType::kF64, shape.C);
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer y("y", DType::kF64, shape.size());
  GuardedBuffer d_b("d_b", DType::kF64, shape.C);
  x.fill_normal();
  b.fill_normal();
  weights.fill_normal();
  bias_grad_ref({weights.view(), d_b.view(), {}, shape.T, shape.C});
  expect_gradient(b, d_b, [&] {
    bias_add_fwd_ref({x.view(), b.view(), y.view(), shape.T, shape.C});
    return weighted_sum(weights, y);
  });
}

TEST(RowBlocks, CoverEveryRowOnce) {
  for (const int64_t T : {1, 15, 16, 17, 1000, 8192}) {
    for (const int64_t C : {1, 768, 30522}) {
      const RowBlocks blocks = row_blocks(T, C);
      EXPECT_LE(blocks.num_blocks, 64);
      EXPECT_GE(blocks.num_blocks * blocks.rows_per_block, T);
      EXPECT_LT((blocks.num_blocks - 1) * blocks.rows_per_block, T);
    }
  }
  EXPECT_EQ(column_sums_scratch_bytes(4096, 384, 3), 3 * 48 * (384 + 32) * 4);
}

TEST(Add, ChecksItsOperands) {
  GuardedBuffer a("a", DType::kF32, 4);
  GuardedBuffer b("b", DType::kBF16, 4);
  EXPECT_THROW(add_fwd_cpu({a.view(), b.view(), a.view(), 4}), Error);
  EXPECT_THROW(add_fwd_cpu({a.view(), {}, a.view(), 4}), Error);
  EXPECT_THROW(bias_grad_cpu({a.view(), a.view(), {}, 2, 2}), Error);
}

}  // namespace
}  // namespace plimsoll::test
