#include "generate/page_table.h"

#include "plan/compile/generation_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "base/check.h"

namespace plimsoll {
namespace {

// A simulated KV cache. Instead of keys and values it stores for each token a hash of the text up to and
// including this token. If a page is shared wrongly, or is not copied when it must be, a hash is wrong.
class SimulatedCache {
 public:
  SimulatedCache(int64_t num_pages, int64_t page_size)
      : table(num_pages, page_size), slots_(static_cast<size_t>(num_pages * page_size), 0) {}

  // Appends tokens to all sequences at once, as a step of the model does: all copies come first, then all writes.
  void step(const std::vector<std::pair<SequenceId, std::vector<uint64_t>>>& appended) {
    struct PageCopy {
      int32_t from, to;
      int64_t tokens;
    };
    std::vector<PageCopy> copies;
    for (const auto& [sequence, tokens] : appended) {
      const int64_t length = table.length(sequence);
      const int32_t from = table.grow(sequence, std::ssize(tokens));
      if (from == kNoPage) continue;
      const int32_t to = table.pages(sequence)[static_cast<size_t>(length / table.page_size())];
      copies.push_back({from, to, length % table.page_size()});
    }
    // All copies of a step may run at the same time on a GPU, so each of them reads the contents before the step.
    const std::vector<uint64_t> before = slots_;
    for (const PageCopy& copy : copies) {
      for (int64_t i = 0; i < copy.tokens; ++i) slot(copy.to, i) = before[index(copy.from, i)];
    }
    for (const auto& [sequence, tokens] : appended) {
      int64_t at = table.length(sequence) - std::ssize(tokens);
      for (const uint64_t token : tokens) {
        texts[sequence] = texts[sequence] * 0x9E3779B97F4A7C15u + token;
        full_texts[sequence].push_back(texts[sequence]);
        const int32_t page = table.pages(sequence)[static_cast<size_t>(at / table.page_size())];
        EXPECT_EQ(table.num_references(page), 1) << "a shared page is written";
        slot(page, at % table.page_size()) = texts[sequence];
        ++at;
      }
    }
    most_used = std::max(most_used, table.num_used());
  }

  void expect_contents(SequenceId sequence) {
    const std::vector<uint64_t>& expected = full_texts[sequence];
    ASSERT_EQ(table.length(sequence), std::ssize(expected));
    ASSERT_EQ(std::ssize(table.pages(sequence)),
              (std::ssize(expected) + table.page_size() - 1) / table.page_size());
    for (int64_t i = 0; i < std::ssize(expected); ++i) {
      const int32_t page = table.pages(sequence)[static_cast<size_t>(i / table.page_size())];
      ASSERT_EQ(slot(page, i % table.page_size()), expected[static_cast<size_t>(i)]) << "token " << i;
    }
  }

  void reorder(std::vector<SequenceId>* beams, const std::vector<int32_t>& parents) {
    std::vector<std::vector<uint64_t>> kept;
    kept.reserve(parents.size());
    for (const int32_t parent : parents) kept.push_back(full_texts[(*beams)[static_cast<size_t>(parent)]]);
    table.reorder(beams, parents);
    for (size_t b = 0; b < beams->size(); ++b) {
      full_texts[(*beams)[b]] = kept[b];
      texts[(*beams)[b]] = kept[b].empty() ? 0 : kept[b].back();
    }
    most_used = std::max(most_used, table.num_used());
  }

  PageTable table;
  std::map<SequenceId, uint64_t> texts;
  std::map<SequenceId, std::vector<uint64_t>> full_texts;
  int64_t most_used = 0;

 private:
  size_t index(int32_t page, int64_t i) const { return static_cast<size_t>(page * table.page_size() + i); }
  uint64_t& slot(int32_t page, int64_t i) { return slots_[index(page, i)]; }

  std::vector<uint64_t> slots_;
};

struct SearchShape {
  std::vector<int64_t> prompts;
  int64_t new_tokens = 1;
  int64_t num_beams = 1;
  int64_t page_size = 1;
};

// Simulates a search with random parents, or with beams that stay separate after the first step, and checks all contents after each step.
// Returns the largest number of pages in use.
int64_t simulate(const SearchShape& shape, std::mt19937& random, bool beams_stay_apart) {
  const int64_t capacity = pages_needed(shape.prompts, shape.new_tokens, shape.num_beams, shape.page_size);
  SimulatedCache cache(capacity, shape.page_size);
  std::vector<std::vector<SequenceId>> beams;
  for (const int64_t length : shape.prompts) {
    beams.push_back({cache.table.add()});
    std::vector<uint64_t> tokens(static_cast<size_t>(length));
    for (uint64_t& token : tokens) token = random();
    cache.full_texts[beams.back()[0]] = {};
    cache.texts[beams.back()[0]] = 0;
    // The prompt is appended in two steps, to test that a sequence can grow by several tokens more than once.
    const auto cut = tokens.begin() + static_cast<std::ptrdiff_t>(random() % tokens.size());
    cache.step({{beams.back()[0], {tokens.begin(), cut}}});
    cache.step({{beams.back()[0], {cut, tokens.end()}}});
  }
  for (int64_t t = 1; t < shape.new_tokens; ++t) {
    std::vector<std::pair<SequenceId, std::vector<uint64_t>>> appended;
    for (auto& of_prompt : beams) {
      std::vector<int32_t> parents;
      for (int64_t b = 0; b < shape.num_beams; ++b) {
        const bool is_first = t == 1;
        parents.push_back(is_first           ? 0
                          : beams_stay_apart ? static_cast<int32_t>(b)
                                             : static_cast<int32_t>(random() % of_prompt.size()));
      }
      cache.reorder(&of_prompt, parents);
      for (const SequenceId beam : of_prompt) appended.push_back({beam, {random()}});
    }
    cache.step(appended);
    for (auto& of_prompt : beams) {
      for (const SequenceId beam : of_prompt) cache.expect_contents(beam);
    }
  }
  EXPECT_LE(cache.most_used, capacity);
  for (auto& of_prompt : beams) {
    for (const SequenceId beam : of_prompt) cache.table.release(beam);
  }
  EXPECT_EQ(cache.table.num_used(), 0) << "a page is lost";
  return cache.most_used;
}

TEST(PageTable, RandomSearchesNeverExceedTheBoundAndKeepTheirContents) {
  std::mt19937 random(3);
  int num_tight = 0;
  for (int i = 0; i < 400; ++i) {
    SearchShape shape;
    shape.page_size = 1 + static_cast<int64_t>(random() % 9);
    shape.num_beams = 1 + static_cast<int64_t>(random() % 8);
    shape.new_tokens = 1 + static_cast<int64_t>(random() % 30);
    const size_t num_prompts = 1 + random() % 4;
    for (size_t p = 0; p < num_prompts; ++p) shape.prompts.push_back(1 + static_cast<int64_t>(random() % 40));
    SCOPED_TRACE(std::to_string(i) + ": " + std::to_string(num_prompts) + " prompts, " +
                 std::to_string(shape.num_beams) + " beams, " + std::to_string(shape.new_tokens) +
                 " new tokens, pages of " + std::to_string(shape.page_size));
    simulate(shape, random, false);
    if (HasFatalFailure()) return;
    // If no two beams share a page after the prompt, the search must use exactly as many pages as pages_needed() reserves.
    const int64_t bound = pages_needed(shape.prompts, shape.new_tokens, shape.num_beams, shape.page_size);
    EXPECT_EQ(simulate(shape, random, true), bound);
    ++num_tight;
  }
  EXPECT_EQ(num_tight, 400);
}

TEST(PageTable, BeamsShareFullPagesAndCopyThePartlyFilledOne) {
  PageTable table(8, 4);
  const SequenceId prompt = table.add();
  EXPECT_EQ(table.grow(prompt, 6), kNoPage);
  EXPECT_EQ(table.num_used(), 2);
  std::vector<SequenceId> beams = {prompt};
  table.reorder(&beams, std::vector<int32_t>{0, 0, 0});
  EXPECT_EQ(table.num_used(), 2) << "nothing is copied before somebody writes";
  EXPECT_EQ(table.grow(beams[0], 1), 1);
  EXPECT_EQ(table.grow(beams[1], 1), 1);
  EXPECT_EQ(table.grow(beams[2], 1), kNoPage) << "the last beam keeps the page";
  EXPECT_EQ(table.num_used(), 4) << "one shared page, and one per beam";
  EXPECT_EQ(table.pages(beams[2])[1], 1);
  EXPECT_EQ(table.num_references(0), 3);
  // The single new beam continues beam 2. The sequences of the other beams must be removed, and nothing is copied.
  table.reorder(&beams, std::vector<int32_t>{2});
  EXPECT_EQ(table.num_used(), 2);
  EXPECT_EQ(table.grow(beams[0], 1), kNoPage);
  // A full last page is shared, and needs no copy when the sequences grow.
  table.reorder(&beams, std::vector<int32_t>{0, 0});
  for (const SequenceId beam : beams) EXPECT_EQ(table.grow(beam, 1), kNoPage);
  EXPECT_EQ(table.num_used(), 4);

  std::vector<int32_t> rows(2 * 4, -1);
  std::vector<int32_t> lengths(2, -1);
  table.write_rows(beams, 4, rows, lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{9, 9}));
  EXPECT_EQ(rows[0], rows[4]);
  EXPECT_EQ(rows[1], rows[5]);
  EXPECT_NE(rows[2], rows[6]);
  EXPECT_EQ(rows[3], 0);
}

TEST(PageTable, TheBound) {
  const std::vector<int64_t> one = {64};
  EXPECT_EQ(pages_needed(one, 1, 4, 16), 4) << "one new token: nothing is stored after the prompt";
  EXPECT_EQ(pages_needed(one, 2, 4, 16), 4 + 4);
  EXPECT_EQ(pages_needed(one, 128, 4, 16), 4 + 4 * 8);
  EXPECT_EQ(pages_needed(std::vector<int64_t>(8, 64), 128, 4, 16), 8 * 36)
      << "the example of the documents: 8 prompts, 4 beams";
  EXPECT_EQ(pages_needed(std::vector<int64_t>{1, 17}, 16, 1, 16), 1 + 2);
}

TEST(PageTable, AFullCacheIsAnInternalError) {
  PageTable table(1, 2);
  const SequenceId sequence = table.add();
  table.grow(sequence, 2);
  try {
    table.grow(sequence, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace plimsoll
