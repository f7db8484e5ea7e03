// Tests promises of the attention contract about single rows on a GPU: tail rows (unused rows after the last sequence) are set to zero,
// dropout uses the specified random numbers, results have repeatable bits, and large scores and NaN are handled.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/testing/attention_device_case.h"

namespace plimsoll::test {
namespace {

TEST(AttentionCudaRows, TailRowsAndNothingElseAreZero) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {9, 0, 20}, .tail = 11, .heads = 3, .head_dim = 8};
    problem.dtype = dtype;
    AttentionCase some(problem);
    OnDevice(some, *kernels).run();
    const int64_t columns = 3 * 8;
    const std::vector<double> o = some.o.to_doubles();
    int64_t zeros = 0;
    for (int part = 0; part < 3; ++part) {
      const std::vector<double> d = some.gradient(part);
      for (int64_t i = 0; i < some.o.count(); ++i) {
        const size_t at = static_cast<size_t>(i);
        EXPECT_EQ(o[at] == 0, i >= some.used_rows() * columns) << i;
        EXPECT_EQ(d[at] == 0, i >= some.used_rows() * columns) << part << " " << i;
        zeros += d[at] == 0;
      }
    }
    EXPECT_EQ(zeros, 3 * 11 * columns);
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t t = some.used_rows(); t < some.dims().tokens; ++t) {
        EXPECT_EQ(some.lse.load(h * some.dims().tokens + t), 0);
      }
    }
  }
}

TEST(AttentionCudaRows, EmptyBatchesAreAllTail) {
  for (const auto& [kernels, dtype] : families()) {
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, std::vector<int64_t>{0, 0}}) {
      AttentionProblem problem{.name = test_name(), .lengths = lengths, .tail = 4, .heads = 2, .head_dim = 8};
      problem.dtype = dtype;
      AttentionCase some(problem);
      OnDevice(some, *kernels).run();
      for (const double value : some.o.to_doubles()) EXPECT_EQ(value, 0);
      for (int part = 0; part < 3; ++part) {
        for (const double value : some.gradient(part)) EXPECT_EQ(value, 0);
      }
    }
  }
}

// All queries are zero, so all keys of a row have the same probability. Row j of v is unit vector j % 64, so element d of o counts how many
// of the keys d, d + 64, d + 128 and so on dropout kept. This shows whether exactly the specified keys are dropped.
TEST(AttentionCudaRows, DropsExactlyTheElementsOfPhilox) {
  int64_t checked = 0;
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {5, 192, 64}, .heads = 2, .head_dim = 64};
    problem.dropout = 0.3;
    problem.dtype = dtype;
    AttentionCase some(problem);
    for (size_t b = 0; b < problem.lengths.size(); ++b) {
      for (int64_t i = 0; i < problem.lengths[b]; ++i) {
        for (int64_t at = 0; at < 2 * 64; ++at) {
          const int64_t t = some.first_rows()[b] + i;
          some.qkv(0).view().store(some.index(0, t, at / 64, at % 64), 0);
          some.qkv(2).view().store(some.index(2, t, at / 64, at % 64), i % 64 == at % 64 ? 1 : 0);
        }
      }
    }
    OnDevice(some, *kernels).run();
    for (size_t b = 0; b < problem.lengths.size(); ++b) {
      const int64_t length = problem.lengths[b];
      for (int64_t at = 0; at < length * 2 * std::min<int64_t>(length, 64); ++at) {
        const int64_t d = at % std::min<int64_t>(length, 64), row = at / std::min<int64_t>(length, 64);
        const int64_t t = some.first_rows()[b] + row / 2, h = row % 2;
        int kept = 0;
        for (int64_t j = d; j < length; j += 64) {
          kept +=
              attention_number(some.options().random, attention_row(t, 2, h), j) >= dropout_threshold(0.3);
        }
        const double one = static_cast<double>(dropout_scale(0.3)) / static_cast<double>(length);
        ASSERT_NEAR(some.o.load((t * 2 + h) * 64 + d), kept * one, 0.02 * one)
            << kernels->name << " " << b << " " << t << " " << h << " " << d;
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, static_cast<int64_t>(families().size()) * 2 * (25 + 192 * 64 + 64 * 64));
}

// If ranks divide the heads, the rank that computes the last two of four heads must draw the same random numbers for them as a single rank
// that computes all four.
TEST(AttentionCudaRows, DropoutOfSomeHeadsIsThatOfAllHeads) {
  constexpr int64_t kHeads = 4, kLocal = 2, kDim = 64;
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {77, 130, 1}, .tail = 3, .heads = kHeads};
    problem.head_dim = kDim;
    problem.dropout = 0.3;
    problem.dtype = dtype;
    AttentionCase all(problem);
    OnDevice(all, *kernels).run();
    problem.heads = kLocal;
    AttentionCase some(problem);
    some.options().all_heads = kHeads;
    some.options().first_head = kHeads - kLocal;
    const auto of_all = [](int64_t h) { return h + kHeads - kLocal; };
    const int64_t rows = all.used_rows();
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t at = 0; at < kLocal * kDim; ++at) {
        const int64_t h = at / kDim, d = at % kDim;
        for (int part = 0; part < 3; ++part)
          some.qkv(part).view().store(some.index(part, t, h, d), all.load(part, t, of_all(h), d));
        some.d_o.view().store((t * kLocal + h) * kDim + d, all.d_o.load((t * kHeads + of_all(h)) * kDim + d));
      }
    }
    OnDevice(some, *kernels).run();
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t at = 0; at < kLocal * kDim; ++at) {
        const int64_t h = at / kDim, d = at % kDim;
        ASSERT_EQ(some.o.load((t * kLocal + h) * kDim + d), all.o.load((t * kHeads + of_all(h)) * kDim + d))
            << kernels->name << " " << t << " " << h << " " << d;
      }
    }
    for (int part = 0; part < 3; ++part) {
      const std::vector<double> whole = all.gradient(part), own = some.gradient(part);
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t at = 0; at < kLocal * kDim; ++at) {
          const int64_t h = at / kDim, d = at % kDim;
          ASSERT_EQ(own[static_cast<size_t>((t * kLocal + h) * kDim + d)],
                    whole[static_cast<size_t>((t * kHeads + of_all(h)) * kDim + d)])
              << kernels->name << " part " << part << " " << t << " " << h << " " << d;
        }
      }
    }
  }
}

TEST(AttentionCudaRows, TwoRunsGiveTheSameBits) {
  for (const auto& [kernels, dtype] : families()) {
    for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
      AttentionProblem problem{
          .name = test_name(), .lengths = {333, 20, 128}, .tail = 1, .heads = 3, .head_dim = 64};
      problem.mask = mask;
      problem.dropout = 0.1;
      problem.dtype = dtype;
      AttentionCase one(problem), other(problem);
      OnDevice(one, *kernels).run();
      OnDevice(other, *kernels).run();
      for (const auto& result : {compare_bits(other.o, one.o), compare_bits(other.lse, one.lse),
                                 compare_bits(other.d_qkv(0), one.d_qkv(0))}) {
        EXPECT_TRUE(result.ok()) << kernels->name << " " << result;
      }
    }
  }
}

// The results of a sequence must have the same bits if it is at another position of another batch.
TEST(AttentionCudaRows, ASequenceDoesNotDependOnTheBatchAroundIt) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem here{.name = test_name(), .lengths = {3, 77, 20}, .tail = 0, .heads = 2, .head_dim = 40};
    // The random numbers of dropout depend on the row in the batch. The tested sequence therefore starts at row 3 in both batches.
    here.dropout = 0.1;
    here.dtype = dtype;
    AttentionProblem there = here;
    there.lengths = {1, 2, 77};
    there.tail = 9;
    there.longest_slack = 300;
    AttentionCase a(here), b(there);
    b.options() = a.options();
    for (int64_t at = 0; at < 77 * 80; ++at) {
      const int64_t t = 3 + at / 80, column = at % 80;
      for (int part = 0; part < 3; ++part) {
        b.qkv(part).view().store(b.index(part, t, 0, column), a.load(part, t, 0, column));
      }
      b.d_o.view().store(t * 80 + column, a.d_o.load(t * 80 + column));
    }
    OnDevice(a, *kernels).run();
    OnDevice(b, *kernels).run();
    for (int64_t at = 0; at < 77 * 80; ++at) {
      const int64_t t = 3 + at / 80, column = at % 80;
      ASSERT_EQ(a.o.load(t * 80 + column), b.o.load(t * 80 + column)) << kernels->name << " " << at;
      for (int part = 0; part < 3; ++part) {
        ASSERT_EQ(a.d_qkv(part).load(a.index(part, t, 0, column)),
                  b.d_qkv(part).load(b.index(part, t, 0, column)))
            << kernels->name << " " << part << " " << at;
      }
    }
  }
}

// With scores of up to 1e6, every query selects one key, whose probability is exactly 1 unless a score is rounded to 16 bits. f16 is
// skipped because it cannot represent such scores.
TEST(AttentionCudaRows, LargeScoresStayExact) {
  for (const auto& [kernels, dtype] : families()) {
    if (dtype == DType::kF16) continue;
    const double limit = kernels->multiplies_16_bits ? 0x1p-7 : 0.0;
    for (const double size : {8192, -8192}) {
      AttentionProblem problem{.name = test_name(), .lengths = {64}, .heads = 1, .head_dim = 64};
      problem.dtype = dtype;
      AttentionCase some(problem);
      for (int64_t i = 0; i < 64; ++i) {
        for (int64_t d = 0; d < 64; ++d) {
          some.qkv(0).view().store(some.index(0, i, 0, d), d == (i * 7) % 64 ? 1024 : 0);
          some.qkv(0).view().store(some.index(1, i, 0, d), i == d ? size + 1024 : size);
        }
      }
      OnDevice(some, *kernels).run();
      for (int64_t i = 0; i < 64; ++i) {
        for (int64_t d = 0; d < 64; ++d) {
          const double want = some.load(2, (i * 7) % 64, 0, d);
          EXPECT_NEAR(some.o.load(i * 64 + d), want, limit * std::abs(want)) << kernels->name;
          EXPECT_TRUE(std::isfinite(some.d_qkv(0).load(some.index(0, i, 0, d)))) << kernels->name;
        }
      }
    }
  }
}

TEST(AttentionCudaRows, NaNReachesTheRowsThatReadIt) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {70, 5}, .heads = 1, .head_dim = 16};
    problem.dtype = dtype;
    AttentionCase some(problem);
    some.qkv(0).view().store(some.index(0, 33, 0, 2), std::numeric_limits<double>::quiet_NaN());
    OnDevice(some, *kernels).run();
    for (int64_t t = 0; t < 75; ++t) {
      EXPECT_EQ(std::isnan(some.o.load(t * 16)), t == 33) << kernels->name << " " << t;
      EXPECT_EQ(std::isnan(some.d_qkv(1).load(some.index(1, t, 0, 0))), t < 70) << kernels->name << " " << t;
    }
  }
}

TEST(AttentionCudaRows, EvaluatingNeedsNoLse) {
  for (const auto& [kernels, dtype] : families()) {
    AttentionProblem problem{.name = test_name(), .lengths = {70, 5}, .heads = 2, .head_dim = 16};
    problem.dtype = dtype;
    AttentionCase with(problem), without(problem);
    OnDevice(with, *kernels).run();
    OnDevice device(without, *kernels);
    AttentionFwdArgs args = device.fwd_args();
    args.lse = {};
    kernels->forward(args, nullptr, nullptr);
    device.download();
    const auto o = compare_bits(without.o, with.o);
    EXPECT_TRUE(o.ok()) << kernels->name << " " << o;
  }
}

}  // namespace
}  // namespace plimsoll::test
