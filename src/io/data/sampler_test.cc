#include "io/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/data/testing/letter_encoder.h"

namespace plimsoll {
namespace {

std::vector<int32_t> random_lengths(TestRandom& random, int64_t num_rows) {
  std::vector<int32_t> lengths;
  for (int64_t row = 0; row < num_rows; ++row) {
    lengths.push_back(static_cast<int32_t>(1 + random.below(64)));
  }
  return lengths;
}

std::vector<int32_t> order_of(const SamplerOptions& options, int64_t epoch,
                              const std::vector<int32_t>& lengths) {
  std::vector<int32_t> order(lengths.size(), -1);
  OrderScratch scratch;
  order_epoch(options, epoch, lengths, scratch, order);
  return order;
}

bool is_permutation_of_rows(std::vector<int32_t> order) {
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int32_t>(i)) {
      return false;
    }
  }
  return true;
}

constexpr SamplingStrategy kStrategies[] = {SamplingStrategy::kRandom, SamplingStrategy::kSequential,
                                            SamplingStrategy::kGroupByLength};

TEST(Sampler, EveryEpochIsAPermutationAndAPureFunction) {
  TestRandom random;
  for (const SamplingStrategy strategy : kStrategies) {
    for (const int64_t num_rows : {1, 2, 7, 64, 1000, 4097}) {
      const std::vector<int32_t> lengths = random_lengths(random, num_rows);
      const SamplerOptions options{strategy, 7, 8, 1, LastBatch::kKeep};
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        const std::vector<int32_t> order = order_of(options, epoch, lengths);
        ASSERT_TRUE(is_permutation_of_rows(order)) << num_rows;
        ASSERT_EQ(order_of(options, epoch, lengths), order);
      }
      if (num_rows >= 64 && strategy != SamplingStrategy::kSequential) {
        SamplerOptions other = options;
        other.seed = 8;
        EXPECT_NE(order_of(options, 0, lengths), order_of(options, 1, lengths));
        EXPECT_NE(order_of(options, 0, lengths), order_of(other, 0, lengths));
      }
    }
  }
}

// The order of the data must be the same on every machine and in every version of Plimsoll, so that runs are reproducible. The expected
// values are those of the first version.
TEST(Sampler, OrdersAreFixedForever) {
  std::vector<int32_t> lengths = {5, 3, 9, 1, 7, 3, 8, 2};
  const auto order = [&](SamplingStrategy strategy, uint64_t seed, int64_t epoch) {
    return order_of({strategy, seed, 1, 1, LastBatch::kKeep}, epoch, lengths);
  };
  EXPECT_EQ(order(SamplingStrategy::kRandom, 42, 0), (std::vector<int32_t>{6, 0, 5, 4, 7, 1, 2, 3}));
  EXPECT_EQ(order(SamplingStrategy::kRandom, 42, 1), (std::vector<int32_t>{0, 6, 5, 1, 4, 3, 7, 2}));
  EXPECT_EQ(order(SamplingStrategy::kGroupByLength, 42, 0), (std::vector<int32_t>{2, 0, 4, 5, 1, 7, 6, 3}));
  EXPECT_EQ(order(SamplingStrategy::kSequential, 42, 0), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Each of the 24 orders of 4 rows must occur about equally often. With random seeds, chi-squared with 23 degrees of freedom is below 49.7
// in 999 of 1000 cases; the seed of the test is fixed.
TEST(Sampler, RandomOrdersAreUniform) {
  std::vector<int64_t> counts(256, 0);
  const std::vector<int32_t> lengths(4, 1);
  constexpr int64_t kEpochs = 24000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int32_t> order =
        order_of({SamplingStrategy::kRandom, 3, 1, 1, LastBatch::kKeep}, epoch, lengths);
    ++counts[static_cast<size_t>(order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3])];
  }
  double chi_squared = 0.0;
  int64_t num_orders = 0;
  for (const int64_t count : counts) {
    if (count > 0) {
      ++num_orders;
      const double off = static_cast<double>(count) - kEpochs / 24.0;
      chi_squared += off * off / (kEpochs / 24.0);
    }
  }
  EXPECT_EQ(num_orders, 24);
  EXPECT_LT(chi_squared, 49.7);
}

TEST(Sampler, GroupsAreSortedByLengthWithTheLongestFirst) {
  TestRandom random;
  for (const int64_t num_rows : {10, 500, 3000}) {
    const std::vector<int32_t> lengths = random_lengths(random, num_rows);
    const SamplerOptions options{SamplingStrategy::kGroupByLength, 1, 4, 2, LastBatch::kKeep};
    const std::vector<int32_t> order = order_of(options, 0, lengths);
    const auto length = [&](int64_t at) {
      return lengths[static_cast<size_t>(order[static_cast<size_t>(at)])];
    };
    EXPECT_EQ(length(0), *std::max_element(lengths.begin(), lengths.end()));
    const int64_t group = 8 * std::clamp<int64_t>(num_rows / 32, 1, 50);
    int64_t falls_outside = 0;
    for (int64_t at = 1; at < num_rows; ++at) {
      // Rows of a group have decreasing lengths, with one exception: the longest row of the data set, at the start of its group, was
      // swapped with the first row of the epoch. So only rows next to the start of a group may violate the order.
      const bool near_beginning = at % group <= 1;
      falls_outside += length(at) > length(at - 1) && !near_beginning ? 1 : 0;
    }
    EXPECT_EQ(falls_outside, 0) << num_rows;
  }
}

TEST(Sampler, EqualLengthsKeepTheRandomOrder) {
  const std::vector<int32_t> lengths(100, 5);
  SamplerOptions options{SamplingStrategy::kGroupByLength, 9, 4, 1, LastBatch::kKeep};
  const std::vector<int32_t> grouped = order_of(options, 2, lengths);
  options.strategy = SamplingStrategy::kRandom;
  EXPECT_EQ(grouped, order_of(options, 2, lengths));
}

struct Walked {
  std::vector<std::vector<int32_t>> batches;
  std::vector<DataPosition> positions;
  std::vector<DataPosition> nexts;
  std::vector<bool> lasts;
};

Walked walk(Sampler sampler, int64_t num_batches) {
  Walked walked;
  for (int64_t i = 0; i < num_batches; ++i) {
    const Sampler::Step step = sampler.next();
    walked.batches.emplace_back(step.rows.begin(), step.rows.end());
    walked.positions.push_back(step.position);
    walked.nexts.push_back(step.next);
    walked.lasts.push_back(step.last_in_epoch);
  }
  return walked;
}

TEST(Sampler, SeekingGivesTheSameBatchesAsWalking) {
  TestRandom random;
  for (const SamplingStrategy strategy : kStrategies) {
    for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDrop}) {
      const Sampler sampler({strategy, 5, 8, 1, last}, random_lengths(random, 37));
      const Walked all = walk(sampler, 20);
      for (size_t from = 0; from < 20; ++from) {
        Sampler resumed = sampler;
        resumed.seek(all.positions[from]);
        const Walked rest = walk(resumed, static_cast<int64_t>(20 - from));
        EXPECT_TRUE(std::equal(rest.batches.begin(), rest.batches.end(),
                               all.batches.begin() + static_cast<std::ptrdiff_t>(from)));
        EXPECT_EQ(from + 1 < 20 ? all.positions[from + 1] : all.nexts[from], all.nexts[from]);
      }
    }
  }
}

TEST(Sampler, AnotherBatchSizeGoesOnWhereTheFirstStopped) {
  TestRandom random;
  const std::vector<int32_t> lengths = random_lengths(random, 50);
  Sampler eight({SamplingStrategy::kRandom, 5, 8, 1, LastBatch::kKeep}, lengths);
  std::multiset<int32_t> seen;
  DataPosition position;
  for (int i = 0; i < 3; ++i) {
    const Sampler::Step step = eight.next();
    seen.insert(step.rows.begin(), step.rows.end());
    position = step.next;
  }
  Sampler five({SamplingStrategy::kRandom, 5, 5, 1, LastBatch::kKeep}, lengths);
  five.seek(position);
  while (five.position().epoch == 0) {
    const Sampler::Step step = five.next();
    seen.insert(step.rows.begin(), step.rows.end());
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(std::set<int32_t>(seen.begin(), seen.end()).size(), 50u);
}

TEST(Sampler, KeepsOrDropsTheLastBatch) {
  const std::vector<int32_t> lengths(10, 1);
  const Sampler keep({SamplingStrategy::kSequential, 0, 4, 1, LastBatch::kKeep}, lengths);
  EXPECT_EQ(keep.batches_per_epoch(), 3);
  const Walked kept = walk(keep, 4);
  EXPECT_EQ(kept.batches[2], (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(kept.lasts, (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(kept.positions[3], (DataPosition{1, 0}));
  const Sampler drop({SamplingStrategy::kSequential, 0, 4, 1, LastBatch::kDrop}, lengths);
  EXPECT_EQ(drop.batches_per_epoch(), 2);
  const Walked dropped = walk(drop, 3);
  EXPECT_EQ(dropped.batches[2], (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(dropped.nexts[1], (DataPosition{1, 0}));
  EXPECT_TRUE(
      error_of([&] {
        Sampler({SamplingStrategy::kRandom, 0, 11, 1, LastBatch::kDrop}, lengths);
      }).starts_with("2: --dataloader_drop_last leaves no data: 10 rows are fewer than a batch of 11"));
}

TEST(Sampler, StrategiesHaveTrainersNames) {
  EXPECT_EQ(parse_sampling_strategy("random"), SamplingStrategy::kRandom);
  EXPECT_EQ(parse_sampling_strategy("sequential"), SamplingStrategy::kSequential);
  EXPECT_EQ(parse_sampling_strategy("group_by_length"), SamplingStrategy::kGroupByLength);
  EXPECT_TRUE(error_of([] {
                parse_sampling_strategy("sorted");
              }).starts_with("2: --train_sampling_strategy must be"));
}

}  // namespace
}  // namespace plimsoll
