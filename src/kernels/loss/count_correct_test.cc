#include "kernels/loss/count_correct.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

template <typename Kernel>
int32_t count(const Kernel& kernel, const std::vector<double>& logits, DType dtype,
              const std::vector<int32_t>& labels, Accumulate accumulate = Accumulate::kOverwrite) {
  GuardedBuffer x("logits", dtype, static_cast<int64_t>(logits.size()));
  x.assign(logits);
  int32_t result = 5;
  kernel({.logits_BK = x.view(),
          .labels_B = {labels.data(), DType::kI32},
          .count = {&result, DType::kI32},
          .num_rows = std::ssize(labels),
          .num_classes = std::ssize(logits) / std::ssize(labels),
          .accumulate = accumulate});
  return result;
}

// Tests equal logits, NaN, infinities and rows without a label, with the count overwritten and added to its old value. The expected
// predictions are those of torch.argmax. The comment on each row of logits states whether the prediction is correct.
TEST(CountCorrect, CountsTheFirstOfTheLargestLogits) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> logits = {1,   2,    3,     // the prediction is correct
                                      3,   2,    1,     // the prediction is wrong
                                      2,   2,    1,     // the second of two equal logits: not correct
                                      2,   2,    1,     // the first of two equal logits: correct
                                      0,   -inf, -inf,  // the prediction is correct
                                      inf, inf,  0,     // the prediction is correct
                                      nan, 1,    0,     // the logit of the label is NaN: not correct
                                      9,   1,    0};    // the row has no label
  const std::vector<int32_t> labels = {2, 2, 1, 0, 0, 0, 0, -100};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto check = [&](const auto& kernel) {
      EXPECT_EQ(count(kernel, logits, dtype, labels), 4);
      EXPECT_EQ(count(kernel, logits, dtype, labels, Accumulate::kAdd), 9);
    };
    check(count_correct_ref);
    test::FastRows(count_correct_ref).for_each(dtype, check);
  }
}

// The kernel compares the elements of a row in blocks. The row lengths include some just below, equal to and just above the size of a
// block, and the labels are at many positions within the blocks.
TEST(CountCorrect, MatchesTheReferenceOnRandomRows) {
  for (const int64_t K : {1, 2, 7, 255, 256, 257, 1000, 50257}) {
    const int64_t B = K > 10000 ? 6 : 64;
    const std::string name = "count_correct_" + std::to_string(K);
    GuardedBuffer x(name, DType::kF32, B * K);
    x.fill_normal(0.0, 4.0);
    std::vector<int32_t> labels;
    for (int64_t b = 0; b < B; ++b) {
      int64_t best = 0;
      for (int64_t k = 1; k < K; ++k)
        if (x.load(b * K + k) > x.load(b * K + best)) best = k;
      // A third of the rows have the arg max as their label, a third have another class, and the others have no
      // label.
      labels.push_back(b % 3 == 0   ? static_cast<int32_t>(best)
                       : b % 3 == 1 ? static_cast<int32_t>(K / 2)
                                    : -100);
    }
    const auto run = [&](const auto& kernel) {
      int32_t result = -1;
      kernel({.logits_BK = x.view(),
              .labels_B = {labels.data(), DType::kI32},
              .count = {&result, DType::kI32},
              .num_rows = B,
              .num_classes = K});
      return result;
    };
    const int32_t want = run(count_correct_ref);
    EXPECT_GE(want, (B + 2) / 3) << name;
    test::FastRows(count_correct_ref).for_each(DType::kF32, [&](const auto& kernel) {
      EXPECT_EQ(run(kernel), want) << name;
    });
  }
}

}  // namespace
}  // namespace plimsoll
