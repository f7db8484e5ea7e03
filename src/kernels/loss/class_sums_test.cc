#include "kernels/loss/class_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/element_wise/rounding.h"
#include "kernels/loss/count_correct.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/loss/testing/class_sums_cases.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;
using testing::Classes;
using testing::Division;
using testing::for_each_case;
using testing::kNan;

// If the classes are divided between ranks, the loss that is computed in double from the sums of all ranks must equal the loss of the
// undivided logits, and so must its gradient and the number of correct predictions. The tolerance allows 64 roundings per term, and one
// more per class for the sums, which are added in different orders. All terms are at most `largest`, which is defined below.
TEST(ClassSums, GiveTheLossOfAllClasses) {
  for_each_case(DType::kF64, [](Classes& c) {
    const Division& d = c.division;
    GuardedBuffer want_loss("want/loss", DType::kF64, 1), want_z("want/z", DType::kF64, 1),
        want_d("want/d_logits", DType::kF64, c.whole.count());
    int32_t want_correct = 0, num_correct = 0;
    softmax_cross_entropy_fwd_ref({.logits_BK = c.whole.view(),
                                   .labels_B = c.labels.view(),
                                   .denominator = {&c.denominator, DType::kF32},
                                   .loss = want_loss.view(),
                                   .num_rows = d.rows,
                                   .num_classes = d.classes,
                                   .label_smoothing = c.variant.smoothing,
                                   .z_coefficient = c.variant.z_coefficient,
                                   .z_loss = want_z.view()});
    softmax_cross_entropy_bwd_ref({.logits_BK = c.whole.view(),
                                   .labels_B = c.labels.view(),
                                   .denominator = {&c.denominator, DType::kF32},
                                   .d_loss = {&c.d_loss, DType::kF64},
                                   .d_logits_BK = want_d.view(),
                                   .num_rows = d.rows,
                                   .num_classes = d.classes,
                                   .label_smoothing = c.variant.smoothing,
                                   .z_coefficient = c.variant.z_coefficient});
    count_correct_ref({.logits_BK = c.whole.view(),
                       .labels_B = c.labels.view(),
                       .count = {&want_correct, DType::kI32},
                       .num_rows = d.rows,
                       .num_classes = d.classes});
    const GuardedBuffer sums = c.sums_of_ranks(class_sums_ref, DType::kF64);
    GuardedBuffer loss("loss", DType::kF64, 1), z_loss("z", DType::kF64, 1),
        d_sums("d_sums", DType::kF64, c.num_sums());
    class_sums_loss_ref(c.loss_args(sums.view(), loss.view(), z_loss.view(), {&num_correct, DType::kI32}));
    class_sums_loss_bwd_ref(c.loss_bwd_args(sums.view(), d_sums.view()));
    const double u = unit_roundoff(DType::kF64) * (64.0 + static_cast<double>(d.classes));
    // In these cases |log Z|, the magnitude of every logit, and z_coefficient log(Z)^2 are at most this number.
    const double largest = 40.0;
    EXPECT_NEAR(loss.load(0), want_loss.load(0), u * largest);
    EXPECT_NEAR(z_loss.load(0), want_z.load(0), u * largest);
    if (c.variant.counts) {
      EXPECT_EQ(num_correct, want_correct);
    }
    const double scale = c.d_loss / static_cast<double>(c.denominator);
    for (int64_t r = 0; r < d.ranks; ++r) {
      GuardedBuffer d_logits("d_logits", DType::kF64, d.rows * d.columns);
      class_sums_bwd_ref(c.bwd_args(r, d_sums.view(), d_logits.view()));
      for (int64_t b = 0; b < d.rows; ++b) {
        for (int64_t k = 0; k < d.columns; ++k) {
          const int64_t at = r * d.columns + k;
          const double want = at < d.classes ? want_d.load(b * d.classes + at) : 0.0;
          ASSERT_NEAR(d_logits.load(b * d.columns + k), want, u * largest * scale) << b << " " << at;
        }
      }
    }
  });
}

TEST(ClassSums, Fp32MatchesTheReference) {
  for_each_case(DType::kF32, [](Classes& c) {
    const Division& d = c.division;
    for (int64_t r = 0; r < d.ranks; ++r) {
      GuardedBuffer want("want/sums", DType::kF64, c.num_sums());
      class_sums_ref(c.sums_args(r, want.view()));
      const ClassShare share = class_share(r, d.columns, d.classes);
      test::FastRows(class_sums_ref).for_each(DType::kF32, [&](const auto& kernel) {
        GuardedBuffer got("sums", DType::kF32, c.num_sums());
        kernel(c.sums_args(r, got.view()));
        EXPECT_EQ(got.broken_guard(), GuardedBuffer::kIntact);
        for (int64_t i = 0; i < c.num_sums(); ++i) {
          const int64_t column = i % c.columns.size();
          // Among the class sums, log_sum alone is computed in fp32. The sum of all logits is added in double and rounded once. The other
          // columns are logits or zeros, which are exact.
          const double bound = column == c.columns.log_sum(r)
                                   ? class_log_sum_error(share.count, std::abs(want.load(i)))
                               : column > c.columns.label_logit() ? 0x1p-23 * std::abs(want.load(i))
                                                                  : 0.0;
          if (std::isinf(want.load(i))) {
            ASSERT_EQ(got.load(i), want.load(i)) << i;
          } else {
            ASSERT_NEAR(got.load(i), want.load(i), bound) << "column " << column << " of rank " << r;
          }
        }
      });
    }
  });
}

TEST(ClassSumsLoss, Fp32MatchesTheReference) {
  for_each_case(DType::kF32, [](Classes& c) {
    const GuardedBuffer sums = c.sums_of_ranks(class_sums_ref, DType::kF32);
    GuardedBuffer want("want/loss", DType::kF64, 1), want_z("want/z", DType::kF64, 1),
        want_d("want/d_sums", DType::kF64, c.num_sums());
    int32_t want_correct = -1;
    class_sums_loss_ref(c.loss_args(sums.view(), want.view(), want_z.view(), {&want_correct, DType::kI32}));
    class_sums_loss_bwd_ref(c.loss_bwd_args(sums.view(), want_d.view()));
    // The kernel and the reference both add the losses of the rows in double, but in different orders.
    const double bound = unit_roundoff(DType::kF64) * (64.0 + static_cast<double>(c.division.rows)) * 40.0;
    test::FastRows(class_sums_loss_ref).for_each(DType::kF32, [&](const auto& kernel) {
      GuardedBuffer loss("loss", DType::kF64, 1), z_loss("z", DType::kF64, 1);
      int32_t num_correct = -1;
      kernel(c.loss_args(sums.view(), loss.view(), z_loss.view(), {&num_correct, DType::kI32}));
      EXPECT_NEAR(loss.load(0), want.load(0), bound);
      EXPECT_NEAR(z_loss.load(0), want_z.load(0), bound);
      EXPECT_EQ(num_correct, want_correct);
    });
    test::FastRows(class_sums_loss_bwd_ref).for_each(DType::kF32, [&](const auto& kernel) {
      GuardedBuffer d_sums("d_sums", DType::kF32, c.num_sums());
      kernel(c.loss_bwd_args(sums.view(), d_sums.view()));
      for (int64_t i = 0; i < c.num_sums(); ++i)
        ASSERT_NEAR(d_sums.load(i), want_d.load(i), 0x1p-23 * std::abs(want_d.load(i)) + 0x1p-126) << i;
    });
  });
}

// Compares the gradients of the logits of every rank with the reference. If the logits are bf16, the gradients overwrite them, and `kernel`
// gets scratch memory for one row of fp32 logits per thread.
template <typename Kernel>
void check_bwd(Classes& c, DType dtype, const Kernel& kernel) {
  const Division& d = c.division;
  const GuardedBuffer sums = c.sums_of_ranks(class_sums_ref, DType::kF32);
  GuardedBuffer d_sums("d_sums", DType::kF32, c.num_sums());
  class_sums_loss_bwd_ref(c.loss_bwd_args(sums.view(), d_sums.view()));
  for (int64_t r = 0; r < d.ranks; ++r) {
    GuardedBuffer want("want/d_logits", DType::kF64, d.rows * d.columns);
    class_sums_bwd_ref(c.bwd_args(r, d_sums.view(), want.view()));
    GuardedBuffer wide("wide row", DType::kF32, num_threads() * cross_entropy_wide_row_floats(d.columns));
    const bool in_place = dtype != DType::kF32;
    GuardedBuffer apart("d_logits", dtype, d.rows * d.columns);
    GuardedBuffer& got = in_place ? c.parts[static_cast<size_t>(r)] : apart;
    ClassSumsBwdArgs args = c.bwd_args(r, d_sums.view(), got.view());
    if (in_place) args.wide_row = wide.view();
    kernel(args);
    EXPECT_EQ(got.broken_guard(), GuardedBuffer::kIntact);
    EXPECT_EQ(wide.broken_guard(), GuardedBuffer::kIntact);
    for (int64_t i = 0; i < got.count(); ++i) {
      const int64_t begin = i / d.columns * c.columns.size();
      double largest = 0.0;
      for (int64_t s = 0; s < c.columns.size(); ++s) largest += std::abs(d_sums.load(begin + s));
      const double bound =
          class_sums_bwd_error(d.columns, std::abs(d_sums.load(begin + c.columns.log_sum(r))), largest) +
          store_error_bound(dtype, std::abs(want.load(i)));
      ASSERT_NEAR(got.load(i), want.load(i), bound) << "element " << i << " of rank " << r;
    }
  }
}

TEST(ClassSumsBwd, MatchesTheReference) {
  for_each_case(DType::kF32, [](Classes& c) {
    test::FastRows(class_sums_bwd_ref).for_each(DType::kF32, [&](const auto& kernel) {
      check_bwd(c, DType::kF32, kernel);
    });
  });
  // Tests the gradients of bf16 logits in place, because linear_cross_entropy calls the kernel in this way if activations have 16 bits.
  for_each_case(DType::kBF16, [](Classes& c) { check_bwd(c, DType::kBF16, class_sums_bwd_cpu); });
}

// If a logit of one rank is NaN or infinite, the loss that is computed from the sums of all ranks must be NaN.
TEST(ClassSumsLoss, IsNanIfALogitIsNotANumber) {
  for (const double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    Classes c({7, 37, 2, 24}, {}, DType::kF32);
    c.parts[1].view().store(0, bad);
    GuardedBuffer loss("loss", DType::kF64, 1);
    const GuardedBuffer sums = c.sums_of_ranks(class_sums_ref, DType::kF32);
    class_sums_loss_ref(c.loss_args(sums.view(), loss.view(), {}, {}));
    EXPECT_TRUE(std::isnan(loss.load(0)));
    const GuardedBuffer fast = c.sums_of_ranks(class_sums_cpu, DType::kF32);
    class_sums_loss_cpu(c.loss_args(fast.view(), loss.view(), {}, {}));
    EXPECT_TRUE(std::isnan(loss.load(0)));
  }
}

}  // namespace
}  // namespace plimsoll
