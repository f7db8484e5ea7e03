// Tests plans: the layout compared with its lower bound for every known model (preset), the planning time, and
// properties of every buffer.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/analysis/liveness.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

PlanRequest preset_request(const std::string& name, int64_t batch, int64_t length) {
  PlanRequest request;
  request.model.config = *find_preset(name);
  request.batches.train = {.tokens = batch * length, .sequences = batch, .longest = length};
  request.batches.evaluate = request.batches.train;
  request.device.num_threads = 2;
  request.device.isa = CpuIsa::kAvx512;
  return request;
}

TEST(Plan, EveryPresetIsWithinTwoPercentOfItsLowerBound) {
  ASSERT_FALSE(preset_names().empty());
  for (const std::string& name : preset_names()) {
    for (const int64_t accumulation : {1, 4}) {
      PlanRequest request = preset_request(name, 4, 512);
      request.batches.accumulation_steps = accumulation;
      const Plan plan = build_plan(request);
      for (const ProgramPlan& program : plan.programs) {
        EXPECT_LE(static_cast<double>(program.transient_bytes),
                  1.02 * static_cast<double>(program.lower_bound_bytes))
            << name << " " << program.name;
      }
    }
  }
}

// BERT-large needs 3835 MiB for its weights and both AdamW moments, and 1920 MiB for saved activations. All other
// memory must fit into the rest of 6000 MiB.
TEST(Plan, BertLargeFitsInto6000MiB) {
  const Plan plan = build_plan(preset_request("bert-large-uncased", 4, 512));
  EXPECT_LE(plan.arena_bytes, int64_t{6000} << 20);
  EXPECT_EQ(plan.num_parameters(), 335143938);
}

// Two transient buffers that are live at the same time must not overlap, and every value that is read must have
// an address.
TEST(Plan, BuffersDoNotOverlap) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 8, 64));
  int pairs = 0;
  for (const ProgramPlan& program : plan.programs) {
    const auto& buffers = program.buffers;
    for (size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_GE(buffers[i].offset, plan.persistent_bytes);
      ASSERT_LE(buffers[i].offset + buffers[i].bytes, plan.arena_bytes);
      for (size_t k = 0; k < i; ++k) {
        if (buffers[i].first > buffers[k].last || buffers[k].first > buffers[i].last) continue;
        ++pairs;
        ASSERT_TRUE(buffers[i].offset + buffers[i].bytes <= buffers[k].offset ||
                    buffers[k].offset + buffers[k].bytes <= buffers[i].offset);
      }
    }
    for (const Op& op : program.graph.ops()) {
      for (ValueId id : op.inputs) {
        if (id == kNoValue) continue;
        ASSERT_GE(program.offsets[index_of(id)], 0) << program.graph.value(id).name;
      }
    }
  }
  EXPECT_GT(pairs, 1000);
}

TEST(Plan, LadderWastesLessThanASixteenth) {
  const std::vector<Bucket> ladder = make_ladder({.tokens = 4000, .sequences = 32, .longest = 256});
  EXPECT_EQ(ladder.back().tokens, 4000);
  for (size_t i = 1; i < ladder.size(); ++i) {
    EXPECT_LE(static_cast<double>(ladder[i].tokens - ladder[i - 1].tokens),
              std::max(16.0, static_cast<double>(ladder[i - 1].tokens) / 16.0));
  }
}

// With sequence parallelism, ranks divide the rows of a batch, so the number of tokens of each compiled batch size
// (bucket) must be a multiple of a given number.
TEST(Plan, TheBucketsOfALadderAreMultiples) {
  for (const int64_t multiple : {16, 32, 48}) {
    const std::vector<Bucket> ladder =
        make_ladder({.tokens = 20 * multiple, .sequences = 4, .longest = 256}, 16, 1.0, multiple);
    EXPECT_EQ(ladder.front().tokens, multiple);
    EXPECT_EQ(ladder.back().tokens, 20 * multiple);
    for (size_t i = 0; i < ladder.size(); ++i) {
      EXPECT_EQ(ladder[i].tokens % multiple, 0);
      if (i == 0) continue;
      EXPECT_GT(ladder[i].tokens, ladder[i - 1].tokens);
      EXPECT_LE(ladder[i].tokens - ladder[i - 1].tokens,
                std::max(multiple, ladder[i - 1].tokens / 16 + multiple));
    }
  }
  EXPECT_THROW(make_ladder({.tokens = 40}, 16, 1.0, 16), Error);
}

// For masked language modelling, a compiled batch size (bucket) reserves memory for a number of labels that random masks
// practically never exceed. A batch with more labels runs in the largest bucket, which has memory for a label at every token.
TEST(Plan, TheLadderHasABucketForALabelAtEachToken) {
  const std::vector<Bucket> ladder =
      make_ladder({.tokens = 16384, .sequences = 32, .longest = 512}, 16, 0.15);
  EXPECT_EQ(ladder.back().label_rows(), 16384);
  const Bucket& usual = ladder[ladder.size() - 2];
  EXPECT_EQ(usual.tokens, 16384);
  // A batch of masked language modelling has 2457.6 labels on average, with a standard deviation of 45.7. The
  // usual bucket must have memory for several standard deviations more.
  EXPECT_EQ(usual.label_rows(), 2800);
  for (size_t i = 1; i < ladder.size(); ++i) {
    EXPECT_LE(ladder[i - 1].tokens, ladder[i].tokens);
    EXPECT_LE(ladder[i - 1].label_rows(), ladder[i].label_rows());
    EXPECT_LE(ladder[i].label_rows(), ladder[i].tokens);
  }
  const ProgramPlan program{.bucket = ladder.back(), .ladder = ladder};
  EXPECT_EQ(bucket_for(program, {.tokens = 16000, .sequences = 32, .labels = 2800}), usual);
  EXPECT_EQ(bucket_for(program, {.tokens = 16000, .sequences = 32, .labels = 2801}), ladder.back());
  EXPECT_EQ(bucket_for(program, {.tokens = 300, .sequences = 1, .labels = 290}).tokens, 1280);
  EXPECT_EQ(bucket_for(program, {.tokens = 16000, .sequences = 32}), ladder.back());
}

}  // namespace
}  // namespace plimsoll
