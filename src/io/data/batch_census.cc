#include "io/data/batch_census.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Distinct token counts, rounded up, with how many batches have each; at most 512 by rounding further.
std::vector<std::pair<int64_t, int64_t>> distinct_counts(const BatchCensus& census, int64_t multiple) {
  std::vector<std::pair<int64_t, int64_t>> counts;
  for (int64_t step = multiple;; step *= 2) {
    counts.clear();
    for (const int32_t tokens : census.tokens) {
      // The last count stays that of the largest batch, however coarse the others are.
      const int64_t rounded = std::min(round_up(tokens, step), round_up(census.tokens.back(), multiple));
      if (counts.empty() || counts.back().first != rounded) {
        counts.emplace_back(rounded, 0);
      }
      ++counts.back().second;
    }
    if (counts.size() <= 512) {
      return counts;
    }
  }
}

}  // namespace

int64_t BatchCensus::quantile(double share) const {
  PLIMSOLL_CHECK(num_batches >= 1 && share >= 0.0 && share <= 1.0);
  const auto rank = static_cast<int64_t>(std::ceil(share * static_cast<double>(num_batches)));
  return tokens[static_cast<size_t>(std::clamp<int64_t>(rank - 1, 0, num_batches - 1))];
}

BatchCensus count_batches(Sampler sampler, int64_t num_epochs, int64_t max_batches) {
  BatchCensus census;
  const int64_t all = num_epochs * sampler.batches_per_epoch();
  census.num_batches = max_batches < 0 ? all : std::min(all, max_batches);
  census.tokens.reserve(static_cast<size_t>(census.num_batches));
  sampler.seek({0, 0});
  for (int64_t batch = 0; batch < census.num_batches; ++batch) {
    const Sampler::Step step = sampler.next();
    BatchSize size;
    size.sequences = static_cast<int64_t>(step.rows.size());
    for (const int32_t row : step.rows) {
      const int64_t length = sampler.lengths()[static_cast<size_t>(row)];
      size.tokens += length;
      size.longest = std::max(size.longest, length);
    }
    census.largest.tokens = std::max(census.largest.tokens, size.tokens);
    census.largest.sequences = std::max(census.largest.sequences, size.sequences);
    census.largest.longest = std::max(census.largest.longest, size.longest);
    census.total_tokens += size.tokens;
    census.total_sequences += size.sequences;
    census.tokens.push_back(narrow<int32_t>(size.tokens));
  }
  std::sort(census.tokens.begin(), census.tokens.end());
  return census;
}

BatchSize largest_batch_without_data(int64_t batch_size, int64_t max_seq_length) {
  return {batch_size * max_seq_length, batch_size, max_seq_length};
}

LadderUse use_ladder(const BatchCensus& census, std::span<const int64_t> ladder) {
  PLIMSOLL_CHECK(!ladder.empty() && ladder.back() >= census.largest.tokens,
                 "the ladder ends below the largest batch");
  LadderUse use;
  use.batches.assign(ladder.size(), 0);
  size_t bucket = 0;
  for (const int32_t tokens : census.tokens) {
    while (ladder[bucket] < tokens) {
      PLIMSOLL_CHECK(ladder[bucket + 1] > ladder[bucket], "the ladder must rise");
      ++bucket;
    }
    ++use.batches[bucket];
    use.computed_tokens += ladder[bucket];
  }
  use.waste = use.computed_tokens == 0
                  ? 0.0
                  : 1.0 - static_cast<double>(census.total_tokens) / static_cast<double>(use.computed_tokens);
  return use;
}

std::vector<int64_t> best_ladder(const BatchCensus& census, int64_t num_buckets, int64_t multiple) {
  PLIMSOLL_CHECK(census.num_batches >= 1 && num_buckets >= 1 && multiple >= 1);
  const std::vector<std::pair<int64_t, int64_t>> counts = distinct_counts(census, multiple);
  const size_t n = counts.size();
  const size_t levels = std::min(static_cast<size_t>(num_buckets), n);
  std::vector<int64_t> before(n + 1, 0);  // batches with one of the first i counts
  for (size_t i = 0; i < n; ++i) {
    before[i + 1] = before[i] + counts[i].second;
  }
  // cost[k][i]: fewest tokens for the first i counts with k buckets, the last of which is count i - 1.
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;
  std::vector<std::vector<int64_t>> cost(levels + 1, std::vector<int64_t>(n + 1, kNever));
  std::vector<std::vector<size_t>> from(levels + 1, std::vector<size_t>(n + 1, 0));
  cost[0][0] = 0;
  for (size_t k = 1; k <= levels; ++k) {
    for (size_t i = k; i <= n; ++i) {
      for (size_t j = k - 1; j < i; ++j) {
        const int64_t total = cost[k - 1][j] + (before[i] - before[j]) * counts[i - 1].first;
        if (total < cost[k][i]) {
          cost[k][i] = total;
          from[k][i] = j;
        }
      }
    }
  }
  std::vector<int64_t> ladder;
  size_t i = n;
  for (size_t k = levels; k >= 1; --k) {
    ladder.push_back(counts[i - 1].first);
    i = from[k][i];
  }
  std::reverse(ladder.begin(), ladder.end());
  return ladder;
}

}  // namespace plimsoll
