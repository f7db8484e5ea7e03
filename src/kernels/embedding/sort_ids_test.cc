#include "kernels/embedding/sort_ids.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/embedding/embedding_catalog.h"
#include "kernels/embedding/testing/sort_ids_cases.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;
using test::sorted_ids;

// Checks that each pair belongs to the list, that the pairs are in the order of the ids and, within an id, of the tokens, and that unused
// tokens come last.
TEST(SortIds, PairsRiseByIdAndThenByToken) {
  for (const int64_t V : {1, 2, 300}) {
    for (const auto& [T, num_tokens] : {std::pair<int64_t, int64_t>{1, 0}, {1, 1}, {90, 61}, {700, 700}}) {
      GuardedBuffer ids("sort/ids", DType::kI32, T);
      ids.fill_indices(V);
      for (int64_t t = num_tokens; t < T; ++t) ids.view().store(t, 1e9);
      const GuardedBuffer sorted = sorted_ids("sort/sorted", ids, T, V, num_tokens);
      std::vector<bool> seen(static_cast<size_t>(T));
      for (int64_t i = 0; i < T; ++i) {
        const auto token = static_cast<int64_t>(sorted.load(2 * i + 1));
        ASSERT_TRUE(token >= 0 && token < T && !seen[static_cast<size_t>(token)]) << i;
        seen[static_cast<size_t>(token)] = true;
        EXPECT_EQ(sorted.load(2 * i), token < num_tokens ? ids.load(token) : double{kNoId}) << i;
        if (i == 0) continue;
        EXPECT_LT(std::pair(sorted.load(2 * i - 2), sorted.load(2 * i - 1)),
                  std::pair(sorted.load(2 * i), sorted.load(2 * i + 1)))
            << i;
      }
    }
  }
}

TEST(SortIds, EqualsTheReferenceForSeveralLists) {
  for (const auto& [T, num_tokens] : {std::pair<int64_t, int64_t>{1, 1}, {90, 61}, {700, 700}}) {
    constexpr int64_t kRows[kMaxEmbeddingTables] = {300, 40, 2, 1};
    std::vector<GuardedBuffer> ids, want;
    SortIdsArgs args{
        .num_lists = kMaxEmbeddingTables, .T = T, .V = 300, .num_tokens = num_tokens, .scratch = {}};
    SortIdsArgs reference = args;
    for (size_t k = 0; k < kMaxEmbeddingTables; ++k) {
      ids.emplace_back(fmt::format("lists/ids{}", k), DType::kI32, T).fill_indices(kRows[k]);
      args.ids[k] = reference.ids[k] = ids.back().view();
      reference.sorted[k] = want.emplace_back("lists/want", DType::kI32, 2 * T).view();
    }
    sort_ids_ref(reference);
    const SortIdsProblem problem{.tokens = T, .rows = 300, .num_lists = kMaxEmbeddingTables};
    test::FastRows(sort_ids_ref).for_each(DType::kF32, problem, [&](const auto& sort_ids) {
      std::vector<GuardedBuffer> got;
      for (size_t k = 0; k < kMaxEmbeddingTables; ++k) {
        args.sorted[k] = got.emplace_back("lists/got", DType::kI32, 2 * T).view();
      }
      args.scratch = {};
      EXPECT_THROW(sort_ids(args), Error);  // fails because the scratch memory is missing
      GuardedBuffer scratch("lists/scratch", DType::kU8, sort_ids.scratch_bytes());
      args.scratch = scratch.view();
      sort_ids(args);
      EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
      for (size_t k = 0; k < kMaxEmbeddingTables; ++k) {
        const auto result = test::compare_bits(got[k], want[k]);
        EXPECT_TRUE(result.ok()) << result;
      }
    });
  }
}

}  // namespace
}  // namespace plimsoll
