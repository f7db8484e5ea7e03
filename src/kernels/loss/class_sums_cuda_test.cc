#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/element_wise/rounding.h"
#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/loss/class_sums.h"
#include "kernels/loss/testing/class_sums_cases.h"

namespace plimsoll::test {
namespace {

using testing::Classes;
using testing::for_each_case;

TEST(ClassSumsCuda, MatchTheReference) {
  for (const DType dtype : cuda_types()) {
    for_each_case(dtype, [](Classes& c) {
      for (int64_t r = 0; r < c.division.ranks; ++r) {
        GuardedBuffer want("want/sums", DType::kF64, c.num_sums()), got("sums", DType::kF32, c.num_sums());
        class_sums_ref(c.sums_args(r, want.view()));
        Twins gpu;
        ClassSumsArgs args = c.sums_args(r, gpu(got));
        args.logits_BK = gpu(c.parts[static_cast<size_t>(r)]);
        args.labels_B = gpu(c.labels);
        run_twice(gpu, {&got}, [&] { class_sums_cuda(args, nullptr); });
        for (int64_t i = 0; i < c.num_sums(); ++i) {
          const int64_t column = i % c.columns.size();
          // Among the class sums, log_sum alone is computed in fp32. The sum of all logits is added in double and rounded once. The other
          // columns are logits or zeros, which are exact.
          const double bound = column == c.columns.log_sum(r)
                                   ? class_log_sum_error(args.share.count, std::abs(want.load(i)))
                               : column > c.columns.label_logit() ? 0x1p-23 * std::abs(want.load(i))
                                                                  : 0.0;
          if (std::isinf(want.load(i))) {
            ASSERT_EQ(got.load(i), want.load(i)) << i;
          } else {
            ASSERT_NEAR(got.load(i), want.load(i), bound) << "column " << column << " of rank " << r;
          }
        }
      }
    });
  }
}

TEST(ClassSumsCuda, GradientsMatchTheReference) {
  for (const DType dtype : cuda_types()) {
    for_each_case(dtype, [&](Classes& c) {
      const int64_t size = c.division.rows * c.division.columns;
      const GuardedBuffer sums = c.sums_of_ranks(class_sums_ref, DType::kF32);
      GuardedBuffer d_sums("d_sums", DType::kF32, c.num_sums());
      class_sums_loss_bwd_ref(c.loss_bwd_args(sums.view(), d_sums.view()));
      for (int64_t r = 0; r < c.division.ranks; ++r) {
        GuardedBuffer want("want/d_logits", DType::kF64, size), got("d_logits", dtype, size);
        class_sums_bwd_ref(c.bwd_args(r, d_sums.view(), want.view()));
        GuardedBuffer& logits = c.parts[static_cast<size_t>(r)];
        Twins gpu;
        ClassSumsBwdArgs args = c.bwd_args(r, gpu(d_sums), gpu(got));
        args.logits_BK = gpu(logits);
        args.labels_B = gpu(c.labels);
        run_twice(gpu, {&got}, [&] { class_sums_bwd_cuda(args, nullptr); });
        std::vector<double> bounds;
        for (int64_t i = 0; i < size; ++i) {
          const int64_t begin = i / c.division.columns * c.columns.size();
          double largest = 0.0;
          for (int64_t s = 0; s < c.columns.size(); ++s) largest += std::abs(d_sums.load(begin + s));
          const double d_log_sum = std::abs(d_sums.load(begin + c.columns.log_sum(r)));
          bounds.push_back(class_sums_bwd_error(c.division.columns, d_log_sum, largest) +
                           store_error_bound(dtype, std::abs(want.load(i))));
        }
        expect_within(got, want, bounds);
        args.d_logits_BK = gpu(logits);  // computes the gradients in place: d_logits overwrites the logits
        class_sums_bwd_cuda(args, nullptr);
        gpu.download();
        for (int64_t i = 0; i < size; ++i) ASSERT_EQ(logits.load(i), got.load(i)) << i;
      }
    });
  }
}

TEST(ClassSumsCuda, LossMatchesTheReference) {
  for_each_case(DType::kF32, [](Classes& c) {
    GuardedBuffer sums = c.sums_of_ranks(class_sums_ref, DType::kF32);
    GuardedBuffer denominator("denominator", DType::kF32, 1), d_loss("d_loss", DType::kF64, 1),
        want("want/loss", DType::kF64, 1), want_z("want/z", DType::kF64, 1), loss("loss", DType::kF64, 1),
        z_loss("z", DType::kF64, 1), num_correct("correct", DType::kI32, 1),
        want_d("want/d_sums", DType::kF64, c.num_sums()), d_sums("d_sums", DType::kF32, c.num_sums()),
        scratch = scratch_of(2 * row_loss_cuda_scratch_bytes(c.division.rows));
    denominator.fill(static_cast<double>(c.denominator));
    d_loss.fill(c.d_loss);
    int32_t want_correct = 0;
    class_sums_loss_ref(c.loss_args(sums.view(), want.view(), want_z.view(), {&want_correct, DType::kI32}));
    class_sums_loss_bwd_ref(c.loss_bwd_args(sums.view(), want_d.view()));
    Twins gpu;
    ClassSumsLossArgs fwd = c.loss_args(gpu(sums), gpu(loss), gpu(z_loss), gpu(num_correct));
    ClassSumsLossBwdArgs bwd = c.loss_bwd_args(gpu(sums), gpu(d_sums));
    fwd.labels_B = bwd.labels_B = gpu(c.labels);
    fwd.denominator = bwd.denominator = gpu(denominator);
    fwd.scratch = gpu(scratch);
    bwd.d_loss = gpu(d_loss);
    run_twice(gpu, {&loss, &z_loss, &d_sums}, [&] {
      class_sums_loss_cuda(fwd, nullptr);
      class_sums_loss_bwd_cuda(bwd, nullptr);
    });
    // The kernel and the reference both add the losses of the rows in double, but in different orders.
    const double bound = unit_roundoff(DType::kF64) * (64.0 + static_cast<double>(c.division.rows)) * 40.0;
    EXPECT_NEAR(loss.load(0), want.load(0), bound);
    EXPECT_NEAR(z_loss.load(0), want_z.load(0), bound);
    if (c.variant.counts) {
      EXPECT_EQ(num_correct.load(0), want_correct);
    }
    std::vector<double> bounds;
    for (int64_t i = 0; i < c.num_sums(); ++i)
      bounds.push_back(0x1p-23 * std::abs(want_d.load(i)) + 0x1p-126);
    expect_within(d_sums, want_d, bounds);
  });
}

}  // namespace
}  // namespace plimsoll::test
