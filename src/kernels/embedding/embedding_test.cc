#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "kernels/catalog/catalog.h"
#include "kernels/embedding/testing/sort_ids_cases.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;
using test::sorted_ids;

class ThreadCount {
 public:
  explicit ThreadCount(int n) : before_(num_threads()) { set_num_threads(n); }
  ~ThreadCount() { set_num_threads(before_); }

 private:
  int before_;
};

struct FwdCase {
  FwdCase(int num_tables, int64_t T, int64_t C, int64_t num_tokens, DType table, DType x)
      : name(fmt::format("embedding_fwd/{} {}x{} {} {}->{}", num_tables, T, C, num_tokens, dtype_name(table),
                         dtype_name(x))),
        got(name + "/x", x, T * C),
        want(name + "/want", DType::kF64, T * C) {
    args.num_tables = num_tables;
    args.T = T;
    args.C = C;
    args.num_tokens = num_tokens;
    constexpr int64_t kRows[kMaxEmbeddingTables] = {97, 40, 2, 1};
    for (int k = 0; k < num_tables; ++k) {
      tables.emplace_back(fmt::format("{}/table{}", name, k), table, kRows[k] * C).fill_normal(0.1, 1.0);
      ids.emplace_back(fmt::format("{}/ids{}", name, k), DType::kI32, T).fill_indices(kRows[k]);
      // The ids of unused rows are far outside the table, so that a kernel fails if it reads them, which it must not do.
      for (int64_t t = num_tokens; t < T; ++t) ids.back().view().store(t, 1e9);
    }
    for (int k = 0; k < num_tables; ++k) {
      args.tables[static_cast<size_t>(k)] = tables[static_cast<size_t>(k)].view();
      args.ids[static_cast<size_t>(k)] = ids[static_cast<size_t>(k)].view();
    }
  }
  std::string name;
  std::vector<GuardedBuffer> tables, ids;
  GuardedBuffer got, want;
  EmbeddingSumFwdArgs args;
};

TEST(EmbeddingSumFwd, MatchesTheReferenceWithinItsBound) {
  int num_cases = 0;
  for (const DType table : {DType::kF32, DType::kBF16}) {
    for (const DType x : {DType::kF32, DType::kBF16}) {
      for (const int num_tables : {1, 2, 3, 4}) {
        for (const int64_t C : {1, 17, 64, 384}) {
          for (const auto& [T, num_tokens] :
               {std::pair<int64_t, int64_t>{1, 1}, {70, 70}, {70, 45}, {33, 20}}) {
            FwdCase test(num_tables, T, C, num_tokens, table, x);
            test.args.x = test.want.view();
            embedding_sum_fwd_ref(test.args);
            std::vector<double> limits(static_cast<size_t>(T * C));
            for (int64_t t = 0; t < num_tokens; ++t) {
              for (int64_t c = 0; c < C; ++c) {
                double sum = 0.0;
                for (size_t k = 0; k < test.tables.size(); ++k) {
                  sum += std::abs(test.tables[k].load(static_cast<int64_t>(test.ids[k].load(t)) * C + c));
                }
                limits[static_cast<size_t>(t * C + c)] = embedding_sum_fwd_error_bound(num_tables, x, sum);
              }
            }
            const EmbeddingProblem problem{.tokens = T, .columns = C};
            test::FastRows(embedding_sum_fwd_ref).for_each(x, problem, [&](const auto& embedding_sum) {
              test.got.poison();
              test.args.x = test.got.view();
              embedding_sum(test.args);
              const auto result =
                  test::compare(test.got, test.want, {.per_element = limits, .shape = {T, C}});
              EXPECT_TRUE(result.ok()) << result;
            });
            ++num_cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(num_cases, 2 * 2 * 4 * 4 * 4);
}

// If each rank has some rows of the first table, the sum of the ranks' outputs must equal the lookup in the whole table. Adding zeros is
// exact, and so is adding small integers.
TEST(EmbeddingSumFwd, SomeRowsOfTheFirstTableAddUp) {
  constexpr int64_t T = 70, C = 40, V = 37, kPart = 24, kTokens = 65;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    GuardedBuffer words("rows/words", dtype, 2 * kPart * C), places("rows/places", dtype, 5 * C),
        ids("rows/ids", DType::kI32, T), at("rows/at", DType::kI32, T), want("rows/want", DType::kF64, T * C),
        sum("rows/sum", DType::kF64, T * C);
    words.fill_small_integers();
    places.fill_small_integers();
    ids.fill_indices(V);
    at.fill_indices(5);
    EmbeddingSumFwdArgs args{.tables = {words.view(), places.view()},
                             .ids = {ids.view(), at.view()},
                             .num_tables = 2,
                             .x = want.view(),
                             .T = T,
                             .C = C,
                             .num_tokens = kTokens};
    embedding_sum_fwd_ref(args);
    const auto check = [&](const auto& embedding_sum) {
      sum.fill(0.0);
      for (int64_t rank = 0; rank < 2; ++rank) {
        GuardedBuffer part("rows/part", dtype, T * C);
        args.tables[0] = words.view_from(rank * kPart * C);
        args.num_tables = rank == 0 ? 2 : 1;
        args.first_row = rank * kPart;
        args.num_rows = kPart;
        args.x = part.view();
        embedding_sum(args);
        for (int64_t i = 0; i < T * C; ++i) sum.view().store(i, sum.load(i) + part.load(i));
      }
      const auto result = test::compare_bits(sum, want);
      EXPECT_TRUE(result.ok()) << result;
    };
    check(embedding_sum_fwd_ref);
    test::FastRows(embedding_sum_fwd_ref).for_each(dtype, EmbeddingProblem{.tokens = T, .columns = C}, check);
  }
}

TEST(EmbeddingSumFwd, UnusedRowsAreZeroEvenWhenAllAre) {
  FwdCase test(3, 40, 30, 0, DType::kF32, DType::kBF16);
  test.args.x = test.got.view();
  embedding_sum_fwd_cpu(test.args);
  const auto result =
      test::compare(test.got, std::vector<double>(1200, 0.0), {.zeros = test::Zeros::kExpected});
  EXPECT_TRUE(result.ok()) << result;
}

struct BwdCase {
  BwdCase(int64_t T, int64_t C, int64_t V, int64_t used_tokens, DType dtype)
      : name(fmt::format("embedding_bwd/{}x{} {} {} {}", T, C, V, used_tokens, dtype_name(dtype))),
        d_x(name + "/d_x", dtype, T * C),
        ids(name + "/ids", DType::kI32, T),
        got(name + "/d_table", DType::kF32, V * C),
        want(name + "/want", DType::kF64, V * C),
        num_tokens(used_tokens) {
    d_x.fill_normal();
    ids.fill_indices(V);
    for (int64_t t = num_tokens; t < T; ++t) ids.view().store(t, 1e9);
    sorted.emplace(sorted_ids(name + "/sorted", ids, T, V, num_tokens));
    args = {
        .d_x = d_x.view(), .sorted = sorted->view(), .d_table = {}, .T = T, .C = C, .V = V, .scratch = {}};
  }
  template <typename Kernel>
  void run(Accumulate accumulate, const Kernel& kernel) {
    args.accumulate = accumulate;
    args.d_table = want.view();
    embedding_bwd_ref(args);
    args.d_table = got.view();
    kernel(args);
  }
  void run(Accumulate accumulate) { run(accumulate, embedding_bwd_cpu); }
  // Computes the largest allowed difference of each element from the terms of its sum. `old` contains the previous d_table, or is empty if
  // d_table is overwritten.
  std::vector<double> limits(const std::vector<double>& old) const {
    std::vector<double> sums(static_cast<size_t>(args.V * args.C));
    std::vector<int64_t> terms(static_cast<size_t>(args.V), old.empty() ? 0 : 1);
    for (size_t i = 0; i < old.size(); ++i) sums[i] = std::abs(old[i]);
    for (int64_t t = 0; t < num_tokens; ++t) {
      const auto v = static_cast<int64_t>(ids.load(t));
      ++terms[static_cast<size_t>(v)];
      for (int64_t c = 0; c < args.C; ++c) {
        sums[static_cast<size_t>(v * args.C + c)] += std::abs(d_x.load(t * args.C + c));
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = embedding_bwd_error_bound(terms[i / static_cast<size_t>(args.C)], sums[i]);
    }
    return sums;
  }
  std::string name;
  GuardedBuffer d_x, ids, got, want;
  std::optional<GuardedBuffer> sorted;
  int64_t num_tokens;
  EmbeddingBwdArgs args;
};

TEST(EmbeddingBwd, MatchesTheReferenceWithinItsBoundOverwritingAndAdding) {
  int num_cases = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t V : {1, 2, 63, 600}) {
      for (const int64_t C : {1, 17, 130, 300}) {
        for (const auto& [T, num_tokens] : {std::pair<int64_t, int64_t>{1, 1}, {90, 61}, {200, 200}}) {
          BwdCase test(T, C, V, num_tokens, dtype);
          for (const int64_t padding_id : {int64_t{-1}, V / 2}) {
            test.args.padding_id = padding_id;
            const EmbeddingProblem problem{.tokens = T, .columns = C};
            test::FastRows(embedding_bwd_ref).for_each(dtype, problem, [&](const auto& embedding_bwd) {
              test.got.poison();
              test.run(Accumulate::kOverwrite, embedding_bwd);
              auto limits = test.limits({});
              auto result =
                  test::compare(test.got, test.want,
                                {.per_element = limits, .zeros = test::Zeros::kExpected, .shape = {V, C}});
              EXPECT_TRUE(result.ok()) << result;
              test.got.fill(0.25);
              test.want.fill(0.25);
              test.run(Accumulate::kAdd, embedding_bwd);
              limits = test.limits(std::vector<double>(static_cast<size_t>(V * C), 0.25));
              result = test::compare(test.got, test.want, {.per_element = limits, .shape = {V, C}});
              EXPECT_TRUE(result.ok()) << result;
            });
            ++num_cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(num_cases, 2 * 4 * 4 * 3 * 2);
}

TEST(EmbeddingBwd, IsTheGradientOfTheForwardPass) {
  // The forward pass is linear in the table, so <d_x, fwd(table)> = <bwd(d_x), table>, which is exact for
  // small integers.
  constexpr int64_t T = 50, C = 20, V = 11, kTokens = 43;
  GuardedBuffer table("adjoint/table", DType::kF32, V * C), d_x("adjoint/d_x", DType::kF32, T * C),
      ids("adjoint/ids", DType::kI32, T), x("adjoint/x", DType::kF32, T * C),
      d_table("adjoint/d_table", DType::kF32, V * C);
  table.fill_small_integers();
  d_x.fill_small_integers();
  ids.fill_indices(V);
  embedding_sum_fwd_cpu({.tables = {table.view()},
                         .ids = {ids.view()},
                         .num_tables = 1,
                         .x = x.view(),
                         .T = T,
                         .C = C,
                         .num_tokens = kTokens});
  GuardedBuffer sorted = sorted_ids("adjoint/sorted", ids, T, V, kTokens);
  embedding_bwd_cpu({.d_x = d_x.view(),
                     .sorted = sorted.view(),
                     .d_table = d_table.view(),
                     .T = T,
                     .C = C,
                     .V = V,
                     .scratch = {}});
  double forward = 0.0, backward = 0.0;
  for (int64_t i = 0; i < T * C; ++i) forward += d_x.load(i) * x.load(i);
  for (int64_t i = 0; i < V * C; ++i) backward += d_table.load(i) * table.load(i);
  EXPECT_NE(forward, 0.0);
  EXPECT_EQ(forward, backward);
}

TEST(EmbeddingBwd, GivesTheSameBitsWithAnyNumberOfThreads) {
  for (const int64_t V : {2, 700}) {
    BwdCase one(300, 200, V, 290, DType::kF32), many(300, 200, V, 290, DType::kF32);
    {
      const ThreadCount threads(1);
      one.run(Accumulate::kOverwrite);
    }
    const ThreadCount threads(4);
    many.run(Accumulate::kOverwrite);
    const auto result = test::compare_bits(many.got, one.got);
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(EmbeddingBwd, SomeRowsHaveTheBitsOfTheWholeTable) {
  constexpr int64_t T = 300, C = 40, V = 97, kTokens = 290;
  for (const bool reference : {false, true}) {
    BwdCase whole(T, C, V, kTokens, DType::kF32);
    whole.args.padding_id = 50;
    const auto run = [&](EmbeddingBwdArgs args) {
      reference ? embedding_bwd_ref(args) : embedding_bwd_cpu(args);
    };
    whole.args.d_table = whole.got.view();
    run(whole.args);
    for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 30}, {30, 40}, {70, 27}, {96, 1}}) {
      GuardedBuffer part("rows/d_table", DType::kF32, rows * C), want("rows/want", DType::kF32, rows * C);
      for (int64_t i = 0; i < rows * C; ++i) want.view().store(i, whole.got.load(first * C + i));
      EmbeddingBwdArgs args = whole.args;
      args.d_table = part.view();
      args.V = rows;
      args.first_row = first;
      args.table_rows = V;
      run(args);
      const auto result = test::compare_bits(part, want);
      EXPECT_TRUE(result.ok()) << result;
    }
  }
}

TEST(EmbeddingCatalog, AsksForTheScratchOfTheKernel) {
  const Selection selection = select_kernel(
      {.kernel = "sort_ids", .family = SortIdsProblem{.tokens = 100, .rows = 1000, .num_lists = 3}});
  ASSERT_NE(selection.row, nullptr);
  EXPECT_EQ(selection.row->implementation, "sort_ids_cpu");
  EXPECT_EQ(selection.scratch_bytes, sort_ids_scratch_bytes(1000));
}

TEST(Embedding, MissingOrWronglyTypedOperandsAreInternalErrors) {
  FwdCase test(2, 4, 4, 4, DType::kF32, DType::kF32);
  EXPECT_THROW(embedding_sum_fwd_cpu(test.args), Error);  // fails because the view x is missing
  test.args.x = test.got.view();
  test.args.ids[1].dtype = DType::kI64;
  EXPECT_THROW(embedding_sum_fwd_cpu(test.args), Error);
  test.args.ids[1].dtype = DType::kI32;
  test.args.num_tokens = 5;
  EXPECT_THROW(embedding_sum_fwd_cpu(test.args), Error);
}

}  // namespace
}  // namespace plimsoll
