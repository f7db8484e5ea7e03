// Tests attention on a CPU: the fast implementations against the reference within the contract's error bound, the reference against finite
// differences, and the contract's promises about repeatable bits, tail rows (unused rows after the last sequence), dropout and memory.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/attention/first_token_attention.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/attention/testing/attention_case.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll::test {
namespace {

// Lists the implementations in the kernel catalog that the tests in this executable must run: all rows of these kernels for a CPU
// (tests/support/kernel_rows.h).
#define PLIMSOLL_ROWS "kernels/attention/attention_catalog.inc"
const TestedRows kTestedRows(
    {
#include "kernels/catalog/cpu_functions.inc"
    },
    {"attention_fwd", "attention_bwd"});

Comparison compare_values(const std::vector<double>& got, const std::vector<double>& want,
                          const std::vector<double>& bound, DType dtype) {
  const ConstView view{got.data(), DType::kF64};
  Limit limit;
  limit.per_element = bound;
  limit.relative = dtype == DType::kBF16 ? 0x1p-8 : 0.0;
  return compare(view, want, limit);
}

// Runs the fast implementations of both passes and compares all of their outputs with those of the reference.
void expect_within_bounds(const AttentionProblem& problem) {
  SCOPED_TRACE(problem.name);
  AttentionCase inputs(problem);
  const std::unique_ptr<AttentionCase> exact = inputs.in_double();
  exact->forward(Implementation::kRef);
  exact->backward(Implementation::kRef);
  const DType dtype = problem.dtype;
  const AttentionBounds bounds = attention_bounds(*exact, dtype);
  const FastRows passes(attention_fwd_ref, attention_bwd_ref);
  passes.for_each_on_best_target(dtype, inputs.dims(), [&](const auto& forward, const auto& backward) {
    AttentionCase fast(problem);
    forward(fast.fwd_args(Implementation::kCpu));
    EXPECT_TRUE(fast.guards_intact());
    backward(fast.bwd_args(Implementation::kCpu));
    EXPECT_TRUE(fast.guards_intact());

    const auto lse = compare_values(fast.lse.to_doubles(), exact->lse.to_doubles(), bounds.lse, DType::kF32);
    EXPECT_TRUE(lse.ok()) << "lse: " << lse;
    const auto o = compare_values(fast.o.to_doubles(), exact->o.to_doubles(), bounds.o, dtype);
    EXPECT_TRUE(o.ok()) << "o: " << o;
    const std::vector<double>* part_bounds[] = {&bounds.d_q, &bounds.d_k, &bounds.d_v};
    for (int part = 0; part < 3; ++part) {
      const auto d = compare_values(fast.gradient(part), exact->gradient(part), *part_bounds[part], dtype);
      EXPECT_TRUE(d.ok()) << "gradient of part " << part << ": " << d;
    }
  });
}

class AttentionHeadDims : public testing::TestWithParam<int64_t> {};

TEST_P(AttentionHeadDims, FastIsWithinItsBoundOfTheReference) {
  // For large heads, tests only half of the combinations of mask and dropout, because the reference takes a second for each.
  const bool large = GetParam() >= 64;
  int problems = 0;
  for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
    for (const double dropout : {0.0, 0.1}) {
      if (large && (dropout > 0) == (mask == AttentionMask::kCausal)) continue;
      AttentionProblem problem{
          .name = "", .lengths = kRagged, .tail = 5, .heads = 2, .head_dim = GetParam(), .mask = mask};
      problem.dropout = dropout;
      problem.layout = dropout > 0 ? QkvLayout::kOneTensor : QkvLayout::kThreeTensors;
      problem.name =
          test_name() + (mask == AttentionMask::kCausal ? "/causal" : "") + "/" + std::to_string(dropout);
      expect_within_bounds(problem);
      ++problems;
    }
  }
  EXPECT_EQ(problems, large ? 2 : 4);
}
INSTANTIATE_TEST_SUITE_P(All, AttentionHeadDims, testing::Values(1, 3, 8, 32, 64, 80, 128));

TEST(Attention, EveryInstructionSetIsWithinTheBound) {
  for (const int64_t head_dim : {3, 32, 80}) {
    for_each_simd_target([&] {
      AttentionProblem problem{
          .name = "", .lengths = {65, 3, 40}, .tail = 2, .heads = 2, .head_dim = head_dim};
      problem.name = test_name() + std::to_string(head_dim);
      problem.dropout = 0.2;
      expect_within_bounds(problem);
    });
  }
}

TEST(Attention, BFloat16IsWithinTheBound) {
  for (const int64_t head_dim : {5, 64}) {
    for_each_simd_target([&] {
      AttentionProblem problem{
          .name = "", .lengths = {70, 0, 33}, .tail = 3, .heads = 2, .head_dim = head_dim};
      problem.name = test_name() + std::to_string(head_dim);
      problem.dtype = DType::kBF16;
      problem.dropout = 0.1;
      expect_within_bounds(problem);
    });
  }
}

// Numbers of heads such that several query heads share a head of k and v, with windows below, at and above the tile sizes of 16, 64 and 128
// rows.
struct SharedCase {
  int64_t heads = 1, kv_heads = 1, window = 0;
};
class AttentionShared : public testing::TestWithParam<SharedCase> {};

AttentionProblem shared_problem(const SharedCase& shared, AttentionMask mask) {
  AttentionProblem problem{.name = "", .lengths = kRagged, .tail = 5, .heads = shared.heads, .head_dim = 16};
  problem.name = test_name() + (mask == AttentionMask::kCausal ? "/causal" : "");
  problem.mask = mask;
  problem.kv_heads = shared.kv_heads;
  problem.window = shared.window;
  return problem;
}

TEST_P(AttentionShared, FastIsWithinItsBoundOfTheReference) {
  for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      AttentionProblem problem = shared_problem(GetParam(), mask);
      problem.dtype = dtype;
      problem.dropout = dtype == DType::kBF16 ? 0.1 : 0.0;
      problem.layout = dtype == DType::kF32 ? QkvLayout::kOneTensor : QkvLayout::kThreeTensors;
      expect_within_bounds(problem);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, AttentionShared,
                         testing::Values(SharedCase{4, 1, 0}, SharedCase{6, 2, 0}, SharedCase{3, 3, 1},
                                         SharedCase{1, 1, 2}, SharedCase{2, 1, 17}, SharedCase{2, 1, 63},
                                         SharedCase{2, 1, 64}, SharedCase{4, 2, 65}, SharedCase{1, 1, 128},
                                         SharedCase{2, 2, 4096}));

TEST(AttentionSharedHeads, EveryInstructionSetIsWithinTheBound) {
  for_each_simd_target([] {
    for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
      AttentionProblem problem = shared_problem({4, 2, 21}, mask);
      problem.lengths = {100, 3};
      problem.dropout = 0.2;
      expect_within_bounds(problem);
    }
  });
}

// Tests a symmetric window as in ModernBERT's local attention: sequences consist of many tiles, and each row sees 64 rows on both sides, so
// the kernels must skip tiles on both sides.
TEST(AttentionWindow, SymmetricWindowsSkipTilesOnBothSides) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {330, 70, 0, 1}, .tail = 7, .heads = 2, .head_dim = 16};
    problem.dtype = dtype;
    problem.window = 65;
    problem.layout = QkvLayout::kOneTensor;
    expect_within_bounds(problem);
  }
}

// q is zero, so all scores are equal and a row of o is the mean of the rows of v that it sees. This shows whether a row sees exactly the
// rows within the window, and none of a neighbouring sequence, which is stored directly before or after its own.
TEST(AttentionWindow, ASymmetricWindowSeesAsManyRowsOnBothSides) {
  for (const int64_t window : {1, 2, 5, 65}) {
    for (const Implementation implementation : {Implementation::kRef, Implementation::kCpu}) {
      AttentionProblem problem{
          .name = test_name(), .lengths = {150, 4, 9}, .tail = 3, .heads = 1, .head_dim = 8};
      problem.window = window;
      AttentionCase some(problem);
      for (int64_t t = 0; t < some.used_rows(); ++t) {
        for (int64_t d = 0; d < 8; ++d) {
          some.qkv(0).view().store(some.index(0, t, 0, d), 0.0);
          some.qkv(2).view().store(some.index(2, t, 0, d), static_cast<double>((t * (d + 3)) % 31));
        }
      }
      some.forward(implementation);
      for (size_t b = 0; b < problem.lengths.size(); ++b) {
        const int64_t first = some.first_rows()[b], count = problem.lengths[b];
        for (int64_t i = 0; i < count; ++i) {
          const int64_t begin = std::max<int64_t>(0, i - window + 1), end = std::min(count, i + window);
          for (int64_t d = 0; d < 8; ++d) {
            double sum = 0;
            for (int64_t j = begin; j < end; ++j) sum += some.load(2, first + j, 0, d);
            EXPECT_NEAR(some.o.load((first + i) * 8 + d), sum / static_cast<double>(end - begin), 1e-5)
                << window << " " << b << " " << i << " " << d;
          }
        }
      }
    }
  }
}

// Sets a window that is as long as every sequence, so that it hides no row, and explicitly as many heads of k and v as of q. The results
// must have the same bits as with the default values of these options.
TEST(AttentionSharedHeads, AWindowThatHidesNothingChangesNoBit) {
  AttentionProblem problem{.name = test_name(), .lengths = kRagged, .tail = 5, .heads = 2, .head_dim = 24};
  for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
    problem.mask = mask;
    AttentionProblem wide = problem;
    wide.window = 129;
    wide.kv_heads = 2;
    AttentionCase plain(problem), windowed(wide);
    for (AttentionCase* some : {&plain, &windowed}) {
      some->forward(Implementation::kCpu);
      some->backward(Implementation::kCpu);
    }
    EXPECT_TRUE(compare_bits(windowed.o, plain.o).ok());
    EXPECT_TRUE(compare_bits(windowed.lse, plain.lse).ok());
    EXPECT_TRUE(compare_bits(windowed.d_qkv(0), plain.d_qkv(0)).ok());
  }
}

// If several query heads read one head of k and v, the results must equal those of attention in which each query head has its own copy of
// that head. The gradients of the shared head must be the sums of the copies' gradients.
TEST(AttentionSharedHeads, EqualCopiesOfTheSharedHeads) {
  AttentionProblem shared{.name = test_name(), .lengths = {40, 7}, .tail = 2, .heads = 6, .head_dim = 8};
  shared.dtype = DType::kF64;
  shared.mask = AttentionMask::kCausal;
  shared.dropout = 0.2;
  shared.window = 11;
  shared.kv_heads = 2;
  AttentionProblem copies = shared;
  copies.kv_heads = 0;
  AttentionCase a(shared), b(copies);
  b.options() = a.options();
  for (int64_t t = 0; t < a.used_rows(); ++t) {
    for (int64_t hd = 0; hd < 6 * 8; ++hd) {
      const int64_t h = hd / 8, d = hd % 8;
      b.d_o.view().store(t * 48 + hd, a.d_o.load(t * 48 + hd));
      for (int part = 0; part < 3; ++part) {
        b.qkv(part).view().store(b.index(part, t, h, d), a.load(part, t, part == 0 ? h : h / 3, d));
      }
    }
  }
  for (AttentionCase* some : {&a, &b}) {
    some->forward(Implementation::kRef);
    some->backward(Implementation::kRef);
  }
  EXPECT_TRUE(compare_bits(a.o, b.o).ok());
  int64_t checked = 0;
  for (int part = 1; part < 3; ++part) {
    const std::vector<double> sums = a.gradient(part), terms = b.gradient(part);
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t t = i / 16, g = i / 8 % 2, d = i % 8;
      double sum = 0;
      for (size_t h = 3 * g; h < 3 * g + 3; ++h) sum += terms[(t * 6 + h) * 8 + d];
      ASSERT_NEAR(sums[i], sum, 1e-14) << part << " " << i;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 2 * 49 * 16);
}

TEST(Attention, LongSequencesUseSmallerBlocks) {
  AttentionProblem problem{.name = test_name(), .lengths = {4200}, .tail = 1, .heads = 1, .head_dim = 1};
  ASSERT_EQ(attention_fwd_query_rows(4200), 16);
  ASSERT_EQ(attention_fwd_query_rows(2048), kAttentionTile);
  problem.mask = AttentionMask::kCausal;
  AttentionCase fast(problem);
  const auto exact = fast.in_double();
  exact->forward(Implementation::kRef);
  fast.forward(Implementation::kCpu);
  EXPECT_TRUE(fast.guards_intact());
  const AttentionBounds bounds = attention_bounds(*exact, DType::kF32);
  const auto o = compare_values(fast.o.to_doubles(), exact->o.to_doubles(), bounds.o, DType::kF32);
  EXPECT_TRUE(o.ok()) << o;
}

TEST(Attention, TailRowsAndNothingElseAreZero) {
  AttentionProblem problem{.name = test_name(), .lengths = {9, 0, 20}, .tail = 11, .heads = 3, .head_dim = 8};
  for (const Implementation implementation : {Implementation::kCpu, Implementation::kRef}) {
    AttentionCase some(problem);
    some.forward(implementation);
    some.backward(implementation);
    const int64_t columns = 3 * 8;
    const std::vector<double> o = some.o.to_doubles();
    int64_t zeros = 0;
    for (int64_t i = 0; i < some.o.count(); ++i) {
      EXPECT_EQ(o[static_cast<size_t>(i)] == 0, i >= some.used_rows() * columns) << i;
      for (int part = 0; part < 3; ++part) {
        const double d = some.gradient(part)[static_cast<size_t>(i)];
        EXPECT_EQ(d == 0, i >= some.used_rows() * columns) << part << " " << i;
        zeros += d == 0;
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

TEST(Attention, EmptyBatchesAreAllTail) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, std::vector<int64_t>{0, 0}}) {
    AttentionProblem problem{.name = test_name(), .lengths = lengths, .tail = 4, .heads = 2, .head_dim = 4};
    AttentionCase some(problem);
    some.forward(Implementation::kCpu);
    some.backward(Implementation::kCpu);
    for (double value : some.o.to_doubles()) EXPECT_EQ(value, 0);
    for (double value : some.gradient(1)) EXPECT_EQ(value, 0);
  }
}

// Row j of v is unit vector j, so element d of o is the probability of key d after dropout. This shows whether exactly the specified keys
// are dropped.
TEST(Attention, DropsExactlyTheElementsOfPhilox) {
  AttentionProblem problem{.name = test_name(), .lengths = {5, 50, 64}, .heads = 2, .head_dim = 64};
  problem.dropout = 0.3;
  AttentionCase dropped(problem);
  for (int64_t t = 0; t < dropped.used_rows(); ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t d = 0; d < 64; ++d) {
        int64_t b = 2;
        while (t < dropped.first_rows()[static_cast<size_t>(b)]) --b;
        const bool own = t - dropped.first_rows()[static_cast<size_t>(b)] == d;
        dropped.qkv(2).view().store(dropped.index(2, t, h, d), own ? 1 : 0);
      }
    }
  }
  AttentionCase whole(problem);
  std::memcpy(whole.qkv(0).view().data, dropped.qkv(0).view().data,
              static_cast<size_t>(whole.qkv(0).size_bytes()));
  whole.options() = dropped.options();
  whole.options().dropout = 0;
  dropped.forward(Implementation::kCpu);
  whole.forward(Implementation::kCpu);
  int64_t checked = 0;
  for (size_t b = 0; b < problem.lengths.size(); ++b) {
    for (int64_t i = 0; i < problem.lengths[b]; ++i) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t j = 0; j < problem.lengths[b]; ++j) {
          const int64_t t = dropped.first_rows()[b] + i;
          const uint32_t number = attention_number(dropped.options().random, attention_row(t, 2, h), j);
          const double m = number >= dropout_threshold(0.3) ? static_cast<double>(dropout_scale(0.3)) : 0;
          const double want = m * whole.o.load((t * 2 + h) * 64 + j);
          ASSERT_NEAR(dropped.o.load((t * 2 + h) * 64 + j), want, 1e-6 * want) << b << " " << i << " " << j;
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 2 * (25 + 2500 + 4096));
}

// Returns the sum of all elements of o, weighted by random numbers (those of d_o). The gradients of this sum are the results of the
// backward pass. Runs the reference.
double weighted_output(AttentionCase& some) {
  some.forward(Implementation::kRef);
  double sum = 0;
  for (int64_t i = 0; i < some.used_rows() * some.dims().heads * some.dims().head_dim; ++i) {
    sum += some.o.load(i) * some.d_o.load(i);
  }
  return sum;
}

// Compares the reference's gradients with central differences of step 1e-5. The error of a central difference is about step^2 (for a third
// derivative of order 1) plus 1e-15 / step.
void expect_finite_differences(int64_t kv_heads) {
  for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
    AttentionProblem problem{
        .name = test_name(), .lengths = {0, 3, 1, 5}, .tail = 2, .heads = 2, .head_dim = 3};
    problem.mask = mask;
    problem.dropout = 0.25;
    problem.dtype = DType::kF64;
    problem.kv_heads = kv_heads;
    problem.window = kv_heads == 1 ? 2 : 0;
    AttentionCase some(problem);
    some.backward(Implementation::kRef);
    int64_t checked = 0;
    for (int part = 0; part < 3; ++part) {
      for (int64_t t = 0; t < some.used_rows(); ++t) {
        for (int64_t hd = 0; hd < 3 * some.heads_of(part); ++hd) {
          const int64_t at = some.index(part, t, hd / 3, hd % 3);
          const double value = some.qkv(part).load(at);
          some.qkv(part).view().store(at, value + 1e-5);
          const double above = weighted_output(some);
          some.qkv(part).view().store(at, value - 1e-5);
          const double below = weighted_output(some);
          some.qkv(part).view().store(at, value);
          EXPECT_NEAR(some.d_qkv(part).load(at), (above - below) / 2e-5, 2e-9)
              << part << " " << t << " " << hd;
          ++checked;
        }
      }
    }
    EXPECT_EQ(checked, 9 * 3 * (2 + 2 * kv_heads));
  }
}
TEST(Attention, ReferenceGradientsAreFiniteDifferences) {
  expect_finite_differences(2);
}
TEST(AttentionSharedHeads, ReferenceGradientsAreFiniteDifferences) {
  expect_finite_differences(1);
}

class Threads {
 public:
  explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

TEST(Attention, SameBitsForAnyNumberOfThreads) {
  for (const std::vector<int64_t>& lengths : {kRagged, std::vector<int64_t>{333}}) {
    for (const AttentionMask mask : {AttentionMask::kBidirectional, AttentionMask::kCausal}) {
      AttentionProblem problem{
          .name = test_name(), .lengths = lengths, .tail = 1, .heads = 1, .head_dim = 32};
      problem.mask = mask;
      problem.dropout = 0.1;
      if (lengths.size() == 1) {
        problem.heads = 4;
        problem.kv_heads = 2;
        problem.window = 70;
      }
      AttentionCase one(problem);
      {
        const Threads threads(1);
        one.forward(Implementation::kCpu);
        one.backward(Implementation::kCpu);
      }
      for (const int n : {2, 3}) {
        const Threads threads(n);
        AttentionCase several(problem);
        several.forward(Implementation::kCpu);
        several.backward(Implementation::kCpu);
        EXPECT_TRUE(several.guards_intact());
        const auto o = compare_bits(several.o, one.o);
        EXPECT_TRUE(o.ok()) << o;
        const auto lse = compare_bits(several.lse, one.lse);
        EXPECT_TRUE(lse.ok()) << lse;
        const auto d_qkv = compare_bits(several.d_qkv(0), one.d_qkv(0));
        EXPECT_TRUE(d_qkv.ok()) << d_qkv;
      }
    }
  }
}

// Copies q, k, v and d_o of one sequence from one case to another with the same number of heads and head size.
void copy_sequence(const AttentionCase& from, int64_t from_row, AttentionCase& to, int64_t to_row,
                   int64_t count) {
  const AttentionDims& dims = from.dims();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t h = 0; h < dims.heads; ++h) {
      for (int64_t d = 0; d < dims.head_dim; ++d) {
        for (int part = 0; part < 3; ++part) {
          to.qkv(part).view().store(to.index(part, to_row + i, h, d), from.load(part, from_row + i, h, d));
        }
        const int64_t column = h * dims.head_dim + d;
        const int64_t columns = dims.heads * dims.head_dim;
        to.d_o.view().store((to_row + i) * columns + column,
                            from.d_o.load((from_row + i) * columns + column));
      }
    }
  }
}

void expect_same_sequence(AttentionCase& a, int64_t a_row, AttentionCase& b, int64_t b_row, int64_t count) {
  const AttentionDims& dims = a.dims();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < dims.heads * dims.head_dim; ++c) {
      const int64_t columns = dims.heads * dims.head_dim;
      ASSERT_EQ(a.o.load((a_row + i) * columns + c), b.o.load((b_row + i) * columns + c)) << i << " " << c;
      for (int part = 0; part < 3; ++part) {
        ASSERT_EQ(a.d_qkv(part).load(a.index(part, a_row + i, 0, c)),
                  b.d_qkv(part).load(b.index(part, b_row + i, 0, c)))
            << part << " " << i << " " << c;
      }
    }
  }
}

TEST(Attention, ASequenceDoesNotDependOnTheBatchAroundIt) {
  for (const double dropout : {0.0, 0.1}) {
    AttentionProblem here{.name = test_name(), .lengths = {3, 77, 20}, .tail = 0, .heads = 2, .head_dim = 40};
    here.dropout = dropout;
    // With dropout the sequence must start at the same row in both batches, because the random numbers depend on the row in the batch.
    AttentionProblem there = here;
    there.lengths = dropout > 0 ? std::vector<int64_t>{1, 2, 77} : std::vector<int64_t>{200, 10, 77};
    there.tail = 9;
    there.longest_slack = 300;
    AttentionCase a(here), b(there);
    b.options() = a.options();
    copy_sequence(a, 3, b, b.first_rows()[2], 77);
    for (AttentionCase* some : {&a, &b}) {
      some->forward(Implementation::kCpu);
      some->backward(Implementation::kCpu);
    }
    expect_same_sequence(a, 3, b, b.first_rows()[2], 77);
  }
}

// With scores of up to 1e6, every query selects one key, whose probability must be exactly 1.
TEST(Attention, LargeScoresStayExact) {
  for (const double size : {1e4, -1e4}) {
    AttentionProblem problem{.name = test_name(), .lengths = {64}, .heads = 1, .head_dim = 64};
    AttentionCase some(problem);
    for (int64_t i = 0; i < 64; ++i) {
      for (int64_t d = 0; d < 64; ++d) {
        some.qkv(0).view().store(some.index(0, i, 0, d), d == (i * 7) % 64 ? 1000 : 0);
        some.qkv(0).view().store(some.index(1, i, 0, d), i == d ? size + 1000 : size);
      }
    }
    some.forward(Implementation::kCpu);
    some.backward(Implementation::kCpu);
    for (int64_t i = 0; i < 64; ++i) {
      for (int64_t d = 0; d < 64; ++d) {
        EXPECT_EQ(some.o.load(i * 64 + d), some.load(2, (i * 7) % 64, 0, d));
        EXPECT_TRUE(std::isfinite(some.d_qkv(0).load(some.index(0, i, 0, d))));
      }
    }
  }
}

TEST(Attention, NaNReachesTheRowsThatReadIt) {
  AttentionProblem problem{.name = test_name(), .lengths = {70, 5}, .heads = 1, .head_dim = 16};
  AttentionCase some(problem);
  some.qkv(0).view().store(some.index(0, 33, 0, 2), std::numeric_limits<double>::quiet_NaN());
  some.forward(Implementation::kCpu);
  some.backward(Implementation::kCpu);
  for (int64_t t = 0; t < 75; ++t) {
    EXPECT_EQ(std::isnan(some.o.load(t * 16)), t == 33) << t;
    EXPECT_EQ(std::isnan(some.d_qkv(1).load(some.index(1, t, 0, 0))), t < 70) << t;
  }
}

TEST(Attention, EvaluatingNeedsNoLse) {
  AttentionProblem problem{.name = test_name(), .lengths = {70, 5}, .heads = 2, .head_dim = 16};
  AttentionCase with(problem), without(problem);
  with.forward(Implementation::kCpu);
  for (const Implementation implementation : {Implementation::kCpu, Implementation::kRef}) {
    AttentionFwdArgs args = without.fwd_args(implementation);
    args.lse = {};
    implementation == Implementation::kCpu ? attention_fwd_cpu(args) : attention_fwd_ref(args);
    EXPECT_TRUE(std::isfinite(without.o.load(0)));
    if (implementation == Implementation::kCpu) {
      const auto o = compare_bits(without.o, with.o);
      EXPECT_TRUE(o.ok()) << o;
    }
  }
}

TEST(Attention, BrokenRequirementsAreNamed) {
  AttentionProblem problem{.name = test_name(), .lengths = {7, 5}, .heads = 2, .head_dim = 16};
  AttentionCase some(problem);
  const auto message = [&](auto change) -> std::string {
    AttentionFwdArgs args = some.fwd_args(Implementation::kCpu);
    change(args);
    try {
      attention_fwd_cpu(args);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
      return error.what();
    }
    return "no error";
  };
  using testing::PrintToString;
  EXPECT_NE(message([](AttentionFwdArgs& a) { a.scratch_bytes -= 1; }).find("scratch"), std::string::npos);
  EXPECT_NE(message([](AttentionFwdArgs& a) { a.dims.longest = 6; }).find("sequence 0 has 7 rows"),
            std::string::npos);
  EXPECT_NE(message([](AttentionFwdArgs& a) { a.dims.tokens = 11; }).find("cu_seqlens ends at row 12"),
            std::string::npos);
  EXPECT_NE(message([](AttentionFwdArgs& a) { a.k.row_stride = 31; }).find("rows of k"), std::string::npos);
  EXPECT_NE(message([](AttentionFwdArgs& a) {
              a.dims.heads = 3, a.dims.kv_heads = 2;
            }).find("3 query heads, 2 heads of keys"),
            std::string::npos);
  EXPECT_NE(message([](AttentionFwdArgs& a) { a.options.dropout = 1; }).find("dropout probability"),
            std::string::npos);
  EXPECT_NE(message([](AttentionFwdArgs& a) { a.v.view.dtype = DType::kBF16; }).find("v is bf16"),
            std::string::npos);
}

// Returns a view of the same rows without the heads before number `head`.
ConstRows from_head(ConstRows rows, int64_t head, int64_t head_dim) {
  rows.view.data = rows.view.as<float>() + head * head_dim;
  return rows;
}

// If several ranks divide the heads, each must draw the random numbers that a single rank draws for the same heads, in both
// passes.
TEST(AttentionDropout, OfSomeHeadsIsThatOfAllHeads) {
  constexpr int64_t kHeads = 4, kLocal = 2, kDim = 8, kTail = 3;
  const AttentionProblem problem{
      .name = "", .lengths = {7, 33, 1}, .tail = kTail, .heads = kHeads, .head_dim = kDim, .dropout = 0.3};
  for (const Implementation implementation : {Implementation::kCpu, Implementation::kRef}) {
    AttentionCase all(problem);
    all.forward(implementation);
    all.backward(implementation);
    const int64_t tokens = all.dims().tokens, columns = kLocal * kDim;
    const std::vector<double> o = all.o.to_doubles(), d_o = all.d_o.to_doubles();
    const std::vector<double> d_q = all.gradient(0), d_k = all.gradient(1), d_v = all.gradient(2);
    for (const int64_t first : {int64_t{0}, kLocal}) {
      const auto size = static_cast<size_t>(tokens * columns);
      std::vector<float> own_o(size), own_d_o(size), own_d_q(size), own_d_k(size), own_d_v(size);
      std::vector<float> own_lse(static_cast<size_t>(kLocal * tokens));
      const auto whole = [&](int64_t t, int64_t column) {
        return static_cast<size_t>(t * kHeads * kDim + first * kDim + column);
      };
      const auto own = [&](int64_t t, int64_t column) { return static_cast<size_t>(t * columns + column); };
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t c = 0; c < columns; ++c) own_d_o[own(t, c)] = static_cast<float>(d_o[whole(t, c)]);
      }
      const auto restrict_to_heads = [&](auto& args) {
        args.dims.heads = kLocal;
        args.options.all_heads = kHeads;
        args.options.first_head = first;
        for (ConstRows* rows : {&args.q, &args.k, &args.v}) *rows = from_head(*rows, first, kDim);
      };
      AttentionFwdArgs forward = all.fwd_args(implementation);
      restrict_to_heads(forward);
      forward.o = {own_o.data(), DType::kF32};
      forward.lse = {own_lse.data(), DType::kF32};
      implementation == Implementation::kRef ? attention_fwd_ref(forward) : attention_fwd_cpu(forward);
      AttentionBwdArgs backward = all.bwd_args(implementation);
      restrict_to_heads(backward);
      backward.o = forward.o;
      backward.lse = forward.lse;
      backward.d_o = {own_d_o.data(), DType::kF32};
      backward.d_q = {{own_d_q.data(), DType::kF32}, columns};
      backward.d_k = {{own_d_k.data(), DType::kF32}, columns};
      backward.d_v = {{own_d_v.data(), DType::kF32}, columns};
      implementation == Implementation::kRef ? attention_bwd_ref(backward) : attention_bwd_cpu(backward);
      for (int64_t t = 0; t < tokens - kTail; ++t) {
        for (int64_t c = 0; c < columns; ++c) {
          ASSERT_EQ(own_o[own(t, c)], o[whole(t, c)]);
          ASSERT_EQ(own_d_q[own(t, c)], d_q[whole(t, c)]);
          ASSERT_EQ(own_d_k[own(t, c)], d_k[whole(t, c)]);
          ASSERT_EQ(own_d_v[own(t, c)], d_v[whole(t, c)]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
