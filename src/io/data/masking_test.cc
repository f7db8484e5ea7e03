// Tests which tokens are masked: how often, on what the choice depends, and that a sequence is masked in the same way in a batch of any
// size.
#include "io/data/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/philox.h"
#include "io/data/batch.h"
#include "io/data/blocks.h"
#include "io/data/loader.h"

namespace plimsoll {
namespace {

constexpr int32_t kNumIds = 1000;
constexpr TokenMasking kMasking{.probability = 0.15,
                                .mask_id = 103,
                                .num_ids = kNumIds,
                                .seed = 42,
                                .special_ids = {101, 102, 0, 103, -1, -1}};

std::vector<int32_t> ids_of(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = 200 + static_cast<int32_t>(i % 700);
  return ids;
}

// Tests that a count is within five standard deviations of its binomial distribution.
void expect_share(double count, double of, double probability) {
  EXPECT_NEAR(count, of * probability, 5.0 * std::sqrt(of * probability * (1.0 - probability)))
      << "of " << of << " with probability " << probability;
}

TEST(Masking, HidesTokensWithTheFrequenciesOfBert) {
  constexpr int64_t kTokens = 200'000;
  const std::vector<int32_t> ids = ids_of(kTokens);
  for (const double probability : {0.15, 0.4, 1.0}) {
    TokenMasking masking = kMasking;
    masking.probability = probability;
    double hidden = 0;
    double masked = 0;
    double kept = 0;
    std::map<int32_t, int64_t> random;
    std::vector<int32_t> inputs = ids;
    std::vector<int32_t> labels = ids;
    mask_ids(masking, {.epoch = 3, .sequence = 9}, inputs);
    mask_labels(masking, {.epoch = 3, .sequence = 9}, labels);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (labels[i] == kNoLabel) {
        ASSERT_EQ(inputs[i], ids[i]);
        continue;
      }
      ASSERT_EQ(labels[i], ids[i]);
      ++hidden;
      if (inputs[i] == masking.mask_id) {
        ++masked;
      } else if (inputs[i] == ids[i]) {
        ++kept;
      } else {
        ++random[inputs[i]];
        EXPECT_TRUE(inputs[i] >= 0 && inputs[i] < kNumIds);
      }
    }
    expect_share(hidden, static_cast<double>(kTokens), probability);
    // The random token that replaces a token is the mask token with probability 1 / kNumIds, and the token itself with the same
    // probability. The token is then counted as masked or kept, so the expected shares are higher than 0.8 and 0.1.
    expect_share(masked, hidden, 0.8 + 0.1 / kNumIds);
    expect_share(kept, hidden, 0.1 + 0.1 / kNumIds);
    EXPECT_GT(random.size(), 0.85 * kNumIds * (1.0 - std::exp(-0.1 * hidden / kNumIds)));
    EXPECT_LT(random.begin()->first, 50);
    EXPECT_GT(random.rbegin()->first, kNumIds - 50);
  }
}

TEST(Masking, NeverHidesSpecialTokens) {
  TokenMasking masking = kMasking;
  masking.probability = 1.0;
  std::vector<int32_t> labels;
  std::vector<int32_t> expected;
  for (int i = 0; i < 100; ++i) {
    // The ids 0 and 101 to 103 are special tokens, which are never masked. 100 is for unknown words and may be masked.
    labels.insert(labels.end(), {0, 101, 102, 103, 100});
    expected.insert(expected.end(), {kNoLabel, kNoLabel, kNoLabel, kNoLabel, 100});
  }
  std::vector<int32_t> inputs = labels;
  mask_labels(masking, {}, labels);
  EXPECT_EQ(labels, expected);
  const std::vector<int32_t> before = inputs;
  mask_ids(masking, {}, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (expected[i] == kNoLabel) {
      EXPECT_EQ(inputs[i], before[i]) << i;
    }
  }
}

std::vector<int32_t> masked(const TokenMasking& masking, MaskedSequence of) {
  std::vector<int32_t> ids = ids_of(400);
  mask_ids(masking, of, ids);
  return ids;
}

TEST(Masking, DependsOnSeedEpochAndSequenceOnly) {
  const std::vector<int32_t> first = masked(kMasking, {.epoch = 0, .sequence = 0});
  EXPECT_EQ(masked(kMasking, {.epoch = 0, .sequence = 0}), first);
  EXPECT_NE(masked(kMasking, {.epoch = 1, .sequence = 0}), first);
  EXPECT_NE(masked(kMasking, {.epoch = 0, .sequence = 1}), first);
  TokenMasking other = kMasking;
  other.seed += uint64_t{1} << 32;
  EXPECT_NE(masked(other, {.epoch = 0, .sequence = 0}), first);
  TokenMasking fixed = kMasking;
  fixed.schedule = MaskSchedule::kNever;
  EXPECT_EQ(masked(fixed, {.epoch = 0, .sequence = 5}), masked(fixed, {.epoch = 7, .sequence = 5}));
  EXPECT_NE(masked(fixed, {.epoch = 0, .sequence = 5}), masked(fixed, {.epoch = 0, .sequence = 6}));
}

// Computes the masks with the random numbers as masking.h documents them, independently of its code. Other programs may rely on this
// documentation to compute the masks of a run.
TEST(Masking, IsThatOfTheContract) {
  std::vector<int32_t> labels = ids_of(40);
  mask_labels(kMasking, {.epoch = 2, .sequence = 7}, labels);
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::array<uint32_t, 4> random =
        philox_block({.seed = 42, .step = 2, .site = 0xDA7A0200u}, uint64_t{7} << 32 | i / 4);
    EXPECT_EQ(labels[i] != kNoLabel, random[i % 4] < 0.15 * 4294967296.0) << i;
  }
}

Dataset masked_lines(const std::vector<int64_t>& lengths, BlockRule rule) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  const std::vector<int32_t> ids = ids_of(offsets.back());
  return make_blocks(TokenSet::from_parts({}, ids, {}, offsets, {}),
                     {.block_size = 16, .rule = rule, .masking = kMasking});
}

BatchLayout layout_of(int64_t tokens) {
  return {.tensors = {{.name = "ids", .per_token = 1},
                      {.name = "positions", .per_token = 1, .position_padding_id = 1},
                      {.name = "cu_seqlens", .per_sequence = 1, .constant = 1},
                      {.name = "labels", .per_token = 1}},
          .capacity = {.tokens = tokens, .sequences = 64, .longest = 64}};
}

// The content of all batches of two epochs. It must not depend on the batch size or the number of workers.
struct Read {
  std::vector<int32_t> ids, labels;
  int64_t num_labels = 0;
  int64_t labels_of_steps = 0;
  bool operator==(const Read&) const = default;
};
Read read_all(const Dataset& data, int64_t batch_size, int num_workers, DataPosition start = {}) {
  const Sampler sampler({.strategy = SamplingStrategy::kRandom, .seed = 5, .batch_size = batch_size},
                        data.row_lengths(), data.row_sequences());
  const BatchLayout layout = layout_of(4096);
  Loader loader(data, sampler, layout, {.num_workers = num_workers, .start = start, .num_epochs = 2});
  MicroBatch batch = make_micro_batch(layout);
  Read read;
  while (loader.next(batch)) {
    const auto append = [&](std::vector<int32_t>& to, const char* name) {
      const std::span<const int32_t> from = batch.tensors.ints(name);
      to.insert(to.end(), from.begin(), from.end());
    };
    append(read.ids, "ids");
    append(read.labels, "labels");
    read.num_labels += batch.info.num_labels;
    read.labels_of_steps += batch.info.labels_in_step;
  }
  return read;
}

TEST(Masking, OfABatchDoesNotDependOnItsSizeOrTheWorkers) {
  for (const BlockRule rule : {BlockRule::kConcatenate, BlockRule::kPack, BlockRule::kSeparate}) {
    const Dataset data = masked_lines({9, 16, 3, 12, 7, 16, 16, 1, 5, 16, 14, 11, 2, 13}, rule);
    const Read expected = read_all(data, 1, 0);
    EXPECT_EQ(expected.labels_of_steps, expected.num_labels);
    EXPECT_EQ(std::ranges::count_if(expected.labels, [](int32_t label) { return label != kNoLabel; }),
              expected.num_labels);
    EXPECT_GT(expected.num_labels, 10);
    EXPECT_EQ(read_all(data, 3, 0), expected);
    EXPECT_EQ(read_all(data, 4, 3), expected);
    for (size_t i = 0; i < expected.ids.size(); ++i) {
      if (expected.labels[i] != kNoLabel) continue;
      EXPECT_NE(expected.ids[i], kMasking.mask_id);
    }
    // A run that resumes in the second epoch must mask the same tokens as one that was not interrupted.
    const Read rest = read_all(data, 2, 0, {.epoch = 1, .index = 2});
    EXPECT_TRUE(std::equal(rest.ids.rbegin(), rest.ids.rend(), expected.ids.rbegin()));
    EXPECT_TRUE(std::equal(rest.labels.rbegin(), rest.labels.rend(), expected.labels.rbegin()));
  }
}

// A batch layout may store only the labels of tokens that have one, and the positions of these tokens in label_ends. They must be the
// labels that the layout with one label per token contains, without those that are kNoLabel.
TEST(Masking, ABatchMayHaveTheRowsWithALabelOnly) {
  for (const BlockRule rule : {BlockRule::kConcatenate, BlockRule::kPack, BlockRule::kSeparate}) {
    const Dataset data = masked_lines({9, 16, 3, 12, 7, 16, 16, 1, 5, 16, 14, 11, 2, 13}, rule);
    const BatchLayout all = layout_of(4096);
    BatchLayout few = all;
    few.tensors.back() = {.name = "labels", .per_label = 1};
    few.tensors.push_back({.name = "label_ends", .per_label = 1, .constant = 1});
    MicroBatch dense = make_micro_batch(all);
    MicroBatch sparse = make_micro_batch(few);
    for (int32_t first = 0; first + 2 <= data.num_rows(); ++first) {
      const std::vector<int32_t> rows{first, first + 1};
      dense.info.position.epoch = sparse.info.position.epoch = first;
      assemble_batch(data, rows, dense);
      assemble_batch(data, rows, sparse);
      EXPECT_EQ(dense.size().labels, BatchSize::kEachToken);
      EXPECT_EQ(sparse.size().labels, dense.info.num_labels);
      std::vector<int32_t> ends{0};
      std::vector<int32_t> labels;
      const auto of_tokens = dense.tensors.ints("labels");
      for (size_t i = 0; i < of_tokens.size(); ++i) {
        if (of_tokens[i] == kNoLabel) continue;
        ends.push_back(static_cast<int32_t>(i) + 1);
        labels.push_back(of_tokens[i]);
      }
      EXPECT_TRUE(std::ranges::equal(sparse.tensors.ints("label_ends"), ends));
      EXPECT_TRUE(std::ranges::equal(sparse.tensors.ints("labels"), labels));
      EXPECT_TRUE(std::ranges::equal(sparse.tensors.ints("ids"), dense.tensors.ints("ids")));
    }
  }
}

TEST(Masking, HidesOtherTokensInEachEpoch) {
  const Dataset data = masked_lines({64}, BlockRule::kConcatenate);
  const Read read = read_all(data, 4, 0);
  ASSERT_EQ(read.labels.size(), 128u);
  std::vector<int32_t> first(read.labels.begin(), read.labels.begin() + 64);
  std::vector<int32_t> second(read.labels.begin() + 64, read.labels.end());
  std::erase(first, kNoLabel);
  std::erase(second, kNoLabel);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_NE(first, second);
}

TEST(Masking, RowsWithoutATokenToPredictAreLeftOut) {
  const std::vector<int32_t> ids{101, 102, 101, 500, 102, 101, 102, 101, 501, 502, 102};
  const TokenSet documents = TokenSet::from_parts({}, ids, {}, {0, 2, 5, 7, 11}, {});
  const BlockOptions options{.block_size = 16, .rule = BlockRule::kSeparate, .masking = kMasking};
  const Dataset data = make_blocks(documents, options);
  ASSERT_EQ(data.num_rows(), 2);
  EXPECT_EQ(data.row_lengths(), (std::vector<int32_t>{3, 4}));
  BlockOptions first = options;
  first.max_blocks = 1;
  EXPECT_EQ(make_blocks(documents, first).row_lengths(), (std::vector<int32_t>{3}));
  const TokenSet full = TokenSet::from_parts({}, {500, 501}, {}, {0, 1, 2}, {});
  EXPECT_TRUE(make_blocks(full, options).packed.empty()) << "nothing is left out";
}

}  // namespace
}  // namespace plimsoll
