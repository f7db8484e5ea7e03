#include "io/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <string>
#include <utility>
#include <vector>

#include "io/data/batch_census.h"
#include "io/data/dataset.h"
#include "io/data/testing/letter_encoder.h"

namespace plimsoll {
namespace {

// Returns rows of random lengths. The ids and types are computed from the row and the position, so that a test can check them.
Dataset random_data(TestRandom& random, int64_t num_rows, int64_t label_width) {
  std::vector<uint16_t> ids;
  std::vector<uint8_t> types;
  std::vector<int64_t> offsets = {0};
  Dataset data;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t length = 1 + random.below(20);
    for (int64_t i = 0; i < length; ++i) {
      ids.push_back(static_cast<uint16_t>(row * 32 + i));
      types.push_back(i * 2 > length ? 1 : 0);
    }
    offsets.push_back(static_cast<int64_t>(ids.size()));
    if (label_width == 0) {
      data.labels.classes.push_back(static_cast<int32_t>(row % 3));
    }
    for (int64_t k = 0; k < label_width; ++k) {
      data.labels.values.push_back(static_cast<float>(row) + 0.25f * static_cast<float>(k));
    }
  }
  data.labels.width = std::max<int64_t>(1, label_width);
  data.tokens = TokenSet::from_parts(std::move(ids), {}, std::move(types), std::move(offsets), {});
  return data;
}

// Returns the layout of a batch with token types. `label_width` is the number of label values per sequence, or 0 if the label of a
// sequence is a class.
BatchLayout layout_of(int64_t label_width, const BatchSize& capacity) {
  const BatchTensorSpec classes{.name = "labels", .per_sequence = 1};
  const BatchTensorSpec values{.name = "labels", .dtype = DType::kF32, .per_sequence = label_width};
  return {.tensors = {{.name = "cu_seqlens", .per_sequence = 1, .constant = 1},
                      {.name = "ids", .per_token = 1},
                      {.name = "positions", .per_token = 1},
                      {.name = "token_types", .per_token = 1},
                      label_width == 0 ? classes : values},
          .capacity = capacity};
}

TEST(Batch, LaysSequencesEndToEnd) {
  TestRandom random;
  const Dataset data = random_data(random, 10, 2);
  MicroBatch batch = make_micro_batch(layout_of(2, {.tokens = 100, .sequences = 6}));
  assemble_batch(data, std::vector<int32_t>{1, 2, 3, 4},
                 batch);  // fills the tensors, so that values of a larger batch could remain in the next one
  const std::vector<int32_t> rows = {7, 0, 7};
  assemble_batch(data, rows, batch);
  const int64_t num_tokens = 2 * data.tokens.length(7) + data.tokens.length(0);
  EXPECT_EQ(batch.size(), (BatchSize{.tokens = num_tokens,
                                     .sequences = 3,
                                     .longest = std::max(data.tokens.length(7), data.tokens.length(0))}));
  EXPECT_EQ(batch.rows, rows);
  EXPECT_EQ(batch.info.num_labels, 3);
  const std::span<const int32_t> ids = batch.tensors.ints("ids");
  const std::span<const int32_t> starts = batch.tensors.ints("cu_seqlens");
  const std::span<const float> labels = batch.tensors.floats("labels");
  ASSERT_EQ(std::ssize(ids), num_tokens);
  ASSERT_EQ(labels.size(), 6u);
  size_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(starts[i], static_cast<int32_t>(at));
    EXPECT_EQ(labels[2 * i], static_cast<float>(rows[i]));
    EXPECT_EQ(labels[2 * i + 1], static_cast<float>(rows[i]) + 0.25f);
    const int64_t length = data.tokens.length(rows[i]);
    for (int64_t j = 0; j < length; ++j, ++at) {
      EXPECT_EQ(ids[at], rows[i] * 32 + j);
      EXPECT_EQ(batch.tensors.ints("token_types")[at], j * 2 > length ? 1 : 0);
      EXPECT_EQ(batch.tensors.ints("positions")[at], j);
    }
  }
  EXPECT_EQ(starts[3], static_cast<int32_t>(at));
}

// Tests the position ids of RoBERTa, which must be the same as in Hugging Face's transformers: padding tokens inside a text are not
// counted.
TEST(Batch, PositionsFollowThePaddingToken) {
  Dataset data;
  const std::vector<uint16_t> ids = {0, 9, 1, 8, 1, 1, 2, 1, 0, 2};
  data.tokens = TokenSet::from_parts(ids, {}, std::vector<uint8_t>(ids.size(), 0), {0, 7, 8, 10}, {});
  const auto positions_of = [&](int32_t padding_id) {
    MicroBatch batch = make_micro_batch(
        {.tensors = {{.name = "cu_seqlens", .per_sequence = 1, .constant = 1},
                     {.name = "positions", .per_token = 1, .position_padding_id = padding_id}},
         .capacity = {.tokens = 20, .sequences = 4}});
    assemble_batch(data, std::vector<int32_t>{0, 1, 2}, batch);
    const std::span<const int32_t> positions = batch.tensors.ints("positions");
    return std::vector<int32_t>(positions.begin(), positions.end());
  };
  EXPECT_EQ(positions_of(-1), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 0, 0, 1}));
  EXPECT_EQ(positions_of(1), (std::vector<int32_t>{2, 3, 1, 4, 1, 1, 5, 1, 2, 3}));
  EXPECT_EQ(positions_of(0), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 1, 0, 1}));
}

TEST(Batch, WithoutLabelsEveryLabelIsIgnored) {
  TestRandom random;
  Dataset data = random_data(random, 4, 0);
  data.labels = {};
  MicroBatch classes = make_micro_batch(layout_of(0, {.tokens = 100, .sequences = 4}));
  assemble_batch(data, std::vector<int32_t>{0, 1}, classes);
  EXPECT_TRUE(
      std::ranges::all_of(classes.tensors.ints("labels"), [](int32_t label) { return label == kNoLabel; }));
  MicroBatch values = make_micro_batch(layout_of(3, {.tokens = 100, .sequences = 4}));
  assemble_batch(data, std::vector<int32_t>{0, 1}, values);
  EXPECT_TRUE(std::ranges::all_of(values.tensors.floats("labels"), [](float label) { return label == 0; }));
}

TEST(Batch, ABatchThatDoesNotFitIsOurBug) {
  TestRandom random;
  const Dataset data = random_data(random, 4, 0);
  MicroBatch batch = make_micro_batch(layout_of(0, {.tokens = 1, .sequences = 6}));
  const std::vector<int32_t> rows = {0, 1, 2, 3};
  EXPECT_TRUE(error_of([&] { assemble_batch(data, rows, batch); }).starts_with("1: "));
}

TEST(Batch, ATensorThatNobodyFillsIsOurBug) {
  TestRandom random;
  const Dataset data = random_data(random, 4, 0);
  MicroBatch batch =
      make_micro_batch({.tensors = {{.name = "words", .per_token = 1}}, .capacity = {100, 4, 0}});
  EXPECT_NE(error_of([&] { assemble_batch(data, std::vector<int32_t>{0}, batch); }).find("'words'"),
            std::string::npos);
}

// The content of all batches that a loader returns, to compare two loaders for equality.
struct Trace {
  std::vector<BatchInfo> infos;
  std::vector<BatchSize> sizes;
  std::vector<int32_t> ints;
  std::vector<float> floats;
  bool operator==(const Trace&) const = default;
};

Sampler sampler_of(const Dataset& data, SamplingStrategy strategy) {
  return Sampler({strategy, 11, 4, 1, LastBatch::kKeep}, data.tokens.lengths());
}

BatchLayout layout_of(const Dataset& data, const Sampler& sampler, int64_t num_epochs) {
  return layout_of(data.labels.is_float() ? data.labels.width : 0,
                   count_batches(sampler, num_epochs).largest);
}

Trace trace(const Dataset& data, const Sampler& sampler, LoaderOptions options) {
  const BatchLayout layout = layout_of(data, sampler, options.num_epochs);
  Loader loader(data, sampler, layout, options);
  MicroBatch batch = make_micro_batch(layout);
  Trace trace;
  while (loader.next(batch)) {
    trace.infos.push_back(batch.info);
    trace.sizes.push_back(batch.size());
    trace.ints.insert(trace.ints.end(), batch.rows.begin(), batch.rows.end());
    for (const BatchTensorSpec& spec : batch.tensors.specs()) {
      if (spec.dtype == DType::kI32) {
        const std::span<const int32_t> values = batch.tensors.ints(spec.name);
        trace.ints.insert(trace.ints.end(), values.begin(), values.end());
      } else {
        const std::span<const float> values = batch.tensors.floats(spec.name);
        trace.floats.insert(trace.floats.end(), values.begin(), values.end());
      }
    }
  }
  EXPECT_FALSE(loader.next(batch));
  return trace;
}

TEST(Loader, GivesTheSameBitsWithAnyNumberOfWorkers) {
  TestRandom random;
  for (const SamplingStrategy strategy :
       {SamplingStrategy::kRandom, SamplingStrategy::kSequential, SamplingStrategy::kGroupByLength}) {
    for (const int64_t label_width : {0, 3}) {
      const Dataset data = random_data(random, 101, label_width);
      const Sampler sampler = sampler_of(data, strategy);
      LoaderOptions options;
      options.num_epochs = 3;
      const Trace alone = trace(data, sampler, options);
      ASSERT_EQ(alone.infos.size(), 78u);
      EXPECT_TRUE(alone.infos[25].last_in_epoch);
      EXPECT_EQ(alone.infos[26].position, (DataPosition{1, 0}));
      for (const int workers : {1, 2, 5}) {
        options.num_workers = workers;
        options.prefetch_factor = workers == 5 ? 1 : 2;
        EXPECT_EQ(trace(data, sampler, options), alone) << workers << " workers";
      }
    }
  }
}

TEST(Loader, ResumesAnywhereWithTheSameBits) {
  TestRandom random;
  const Dataset data = random_data(random, 23, 0);
  const Sampler sampler = sampler_of(data, SamplingStrategy::kRandom);
  LoaderOptions options;
  options.num_epochs = 2;
  const Trace all = trace(data, sampler, options);
  for (size_t done = 0; done < all.infos.size(); ++done) {
    for (const int workers : {0, 2}) {
      options.num_workers = workers;
      options.start = all.infos[done].next;
      const Trace rest = trace(data, sampler, options);
      ASSERT_EQ(rest.infos.size(), all.infos.size() - done - 1);
      EXPECT_TRUE(std::equal(rest.ints.rbegin(), rest.ints.rend(), all.ints.rbegin())) << done;
    }
  }
}

// The number of labels in a step must be the sum of those of its micro-batches, also for an incomplete step at the end of an epoch.
TEST(Loader, TellsTheNumberOfLabelsOfAStep) {
  TestRandom random;
  const Dataset data = random_data(random, 23, 0);
  const Sampler sampler({SamplingStrategy::kRandom, 11, 4, 3, LastBatch::kKeep}, data.tokens.lengths());
  const Trace all = trace(data, sampler, {.start = {}, .num_epochs = 2});
  int steps = 0;
  for (size_t i = 0; i < all.infos.size(); ++steps) {
    const int64_t told = all.infos[i].labels_in_step;
    int64_t labels = 0;
    for (int in_step = 0; in_step < 3; ++in_step) {
      labels += all.infos[i].num_labels;
      if (all.infos[i++].last_in_epoch) break;
    }
    EXPECT_EQ(told, labels);
  }
  EXPECT_EQ(steps, 4);
}

// Returns the rows and the BatchInfo of each batch that the loader returns.
std::vector<std::pair<std::vector<int32_t>, BatchInfo>> batches_of(const Dataset& data,
                                                                   const Sampler& sampler,
                                                                   const LoaderOptions& options) {
  const BatchLayout layout = layout_of(data, sampler, options.num_epochs);
  Loader loader(data, sampler, layout, options);
  MicroBatch batch = make_micro_batch(layout);
  std::vector<std::pair<std::vector<int32_t>, BatchInfo>> batches;
  while (loader.next(batch)) batches.emplace_back(batch.rows, batch.info);
  return batches;
}

// Several ranks must together read the batches that one rank would read: no batch is lost or read twice, and all ranks get the same
// number of batches.
TEST(Loader, RanksShareTheBatchesOfAnEpoch) {
  TestRandom random;
  const Dataset data = random_data(random, 23, 0);
  const Sampler one({SamplingStrategy::kRandom, 11, 4, 1, LastBatch::kKeep}, data.tokens.lengths());
  const auto all = batches_of(data, one, {.start = {}, .num_epochs = 2});
  ASSERT_EQ(all.size(), 12u);
  for (const int64_t num_ranks : {1, 2, 4, 5, 8}) {
    const Sampler sampler({SamplingStrategy::kRandom, 11, 4, num_ranks, LastBatch::kKeep},
                          data.tokens.lengths());
    std::vector<std::vector<std::pair<std::vector<int32_t>, BatchInfo>>> of_rank;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      of_rank.push_back(batches_of(data, sampler,
                                   {.num_workers = static_cast<int>(rank % 3),
                                    .start = {},
                                    .num_epochs = 2,
                                    .rank = rank,
                                    .num_ranks = num_ranks}));
      ASSERT_EQ(of_rank.back().size(), of_rank.front().size());
    }
    size_t next = 0;
    for (size_t turn = 0; turn < of_rank.front().size(); ++turn) {
      int64_t labels = 0;
      int64_t own = 0;
      for (const auto& batches : of_rank) {
        const auto& [rows, info] = batches[turn];
        EXPECT_EQ(info.labels_in_step, of_rank.front()[turn].second.labels_in_step);
        EXPECT_EQ(info.next, of_rank.front()[turn].second.next);
        EXPECT_EQ(info.last_in_epoch, of_rank.front()[turn].second.last_in_epoch);
        if (!info.contributes) continue;
        EXPECT_EQ(rows, all[next].first);
        labels += info.num_labels;
        ++own;
        ++next;
      }
      EXPECT_EQ(labels, of_rank.front()[turn].second.labels_in_step);
      EXPECT_EQ(own, of_rank.front()[turn].second.batches_of_ranks);
      EXPECT_EQ(of_rank.front()[turn].second.next, all[next - 1].second.next);
    }
    EXPECT_EQ(next, all.size());
  }
}

TEST(Loader, StopsCleanlyInTheMiddle) {
  TestRandom random;
  const Dataset data = random_data(random, 50, 0);
  const Sampler sampler = sampler_of(data, SamplingStrategy::kRandom);
  const BatchLayout layout = layout_of(data, sampler, 1);
  MicroBatch batch = make_micro_batch(layout);
  for (int round = 0; round < 50; ++round) {
    LoaderOptions options;
    options.num_workers = 1 + round % 3;
    Loader loader(data, sampler, layout, options);
    for (int i = 0; i < round % 7; ++i) {
      ASSERT_TRUE(loader.next(batch));
    }
  }
}

// A batch that is larger than planned must cause an error when next() would return it, not already when a worker prepares it. The message
// must say what to do.
TEST(Loader, RefusesABatchThatIsLargerThanPlannedAtItsTurn) {
  TestRandom random;
  const Dataset data = random_data(random, 50, 0);
  const Sampler sampler = sampler_of(data, SamplingStrategy::kRandom);
  const Trace all = [&] {
    LoaderOptions options;
    options.num_epochs = 1;
    return trace(data, sampler, options);
  }();
  // Finds the first batch, from the third one on, that is larger than all batches before it.
  int64_t before = 0;  // tokens of the largest of the batches 0 to i - 1
  size_t turn = 0;
  for (size_t i = 0; i < all.infos.size(); ++i) {
    const int64_t tokens = all.sizes[i].tokens;
    if (i >= 2 && tokens > before) {
      turn = i;
      break;
    }
    before = std::max(before, tokens);
  }
  ASSERT_GE(turn, 2u) << "every batch fits";
  for (const int workers : {0, 1, 3}) {
    SCOPED_TRACE(workers);
    LoaderOptions options;
    options.num_workers = workers;
    const BatchLayout layout = layout_of(0, {.tokens = before, .sequences = 4});
    Loader loader(data, sampler, layout, options);
    MicroBatch batch = make_micro_batch(layout);
    for (size_t i = 0; i < turn; ++i) ASSERT_TRUE(loader.next(batch));
    for (int again = 0; again < 2; ++again) {
      const std::string message = error_of([&] { loader.next(batch); });
      EXPECT_TRUE(message.starts_with("2: ")) << message;
      EXPECT_NE(message.find(fmt::format("{} tokens", all.sizes[turn].tokens)), std::string::npos) << message;
      EXPECT_NE(message.find("--max_steps"), std::string::npos) << message;
    }
  }
}

TEST(Dummy, IsWhatTheArgumentsSay) {
  const Dataset data = make_dummy_dataset();
  EXPECT_EQ(data.num_rows(), 512);
  EXPECT_EQ(data.tokens.num_tokens(), 512 * 512);
  EXPECT_EQ(data.held_bytes(),
            512 * 512 * 2 + 513 * 8 + static_cast<int64_t>(data.labels.classes.capacity()) * 4);
  EXPECT_EQ(data.held_bytes(), dummy_dataset_bytes({}));
  int64_t ones = 0;
  std::vector<int32_t> ids(512);
  int32_t lowest = 1 << 30;
  int32_t highest = 0;
  for (int64_t row = 0; row < 512; ++row) {
    data.tokens.copy_ids(row, ids.data());
    lowest = std::min(lowest, *std::min_element(ids.begin(), ids.end()));
    highest = std::max(highest, *std::max_element(ids.begin(), ids.end()));
    ones += data.labels.classes[static_cast<size_t>(row)];
  }
  EXPECT_EQ(lowest, 100);
  EXPECT_EQ(highest, 29999);
  EXPECT_GT(ones, 200);
  EXPECT_LT(ones, 312);
  EXPECT_EQ(make_dummy_dataset().tokens, data.tokens);
  DummyOptions other;
  other.seed = 1;
  EXPECT_FALSE(make_dummy_dataset(other).tokens == data.tokens);
  other.num_rows = 3;
  other.length = 5;
  other.end_id = 100000;
  EXPECT_EQ(make_dummy_dataset(other).tokens.num_tokens(), 15);
  EXPECT_FALSE(make_dummy_dataset(other).tokens.is_narrow());
  other.end_id = 50;
  EXPECT_TRUE(error_of([&] { make_dummy_dataset(other); }).starts_with("2: "));
}

// Returns the numbers of tokens of all batches in the histogram of the census.
std::vector<int64_t> listed(const BatchCensus& census) {
  std::vector<int64_t> tokens;
  for (const auto& [count, batches] : census.counts)
    tokens.insert(tokens.end(), static_cast<size_t>(batches), count);
  return tokens;
}

TEST(BatchCensus, CountsWhatTheLoaderGives) {
  TestRandom random;
  const Dataset data = random_data(random, 101, 0);
  for (const SamplingStrategy strategy : {SamplingStrategy::kRandom, SamplingStrategy::kGroupByLength}) {
    const Sampler sampler = sampler_of(data, strategy);
    const BatchCensus census = count_batches(sampler, 3);
    LoaderOptions options;
    options.num_epochs = 3;
    const Trace all = trace(data, sampler, options);
    BatchSize largest;
    std::vector<int64_t> tokens;
    for (const BatchSize& size : all.sizes) {
      largest.tokens = std::max(largest.tokens, size.tokens);
      largest.sequences = std::max(largest.sequences, size.sequences);
      largest.longest = std::max(largest.longest, size.longest);
      tokens.push_back(size.tokens);
    }
    std::sort(tokens.begin(), tokens.end());
    EXPECT_EQ(census.largest, largest);
    EXPECT_EQ(listed(census), tokens);
    EXPECT_TRUE(census.is_exact);
    EXPECT_EQ(census.total_tokens, 3 * data.tokens.num_tokens());
  }
  EXPECT_EQ(largest_batch_without_data(8, 128), (BatchSize{1024, 8, 128}));
}

// For a huge number of epochs, count_batches() must return in a short time, and no batch of any epoch may be larger than the largest size
// that it returns.
TEST(BatchCensus, EpochsWithoutNumberAreBounded) {
  TestRandom random;
  const Dataset data = random_data(random, 101, 0);
  constexpr int64_t kMany = int64_t{1} << 32;
  const Sampler sequential = sampler_of(data, SamplingStrategy::kSequential);
  const BatchCensus once = count_batches(sequential, 1);
  const BatchCensus often = count_batches(sequential, kMany);
  EXPECT_TRUE(often.is_exact);
  EXPECT_EQ(often.largest, once.largest);
  EXPECT_EQ(often.counts, once.counts);
  EXPECT_EQ(often.num_batches, kMany * once.num_batches);
  EXPECT_EQ(often.total_tokens, kMany * data.tokens.num_tokens());
  for (const SamplingStrategy strategy : {SamplingStrategy::kRandom, SamplingStrategy::kGroupByLength}) {
    const Sampler sampler = sampler_of(data, strategy);
    const BatchCensus bounded = count_batches(sampler, kMany, 500);
    EXPECT_FALSE(bounded.is_exact);
    EXPECT_EQ(bounded.num_walked, 4 * sampler.batches_per_epoch());
    EXPECT_EQ(bounded.total_tokens, kMany * data.tokens.num_tokens());
    EXPECT_EQ(bounded.largest.longest, data.tokens.longest());
    const BatchCensus longer = count_batches(sampler, 200);
    EXPECT_TRUE(longer.is_exact);
    EXPECT_GE(bounded.largest.tokens, longer.largest.tokens);
    EXPECT_EQ(bounded.largest.sequences, longer.largest.sequences);
  }
}

}  // namespace
}  // namespace plimsoll
