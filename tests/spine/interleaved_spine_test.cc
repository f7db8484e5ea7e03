// Tests pipelines whose stages have several chunks of layers each (the interleaved schedule). They must make
// the same training steps as one rank. The ranks are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/ops/chunk.h"
#include "kernels/element_wise/rounding.h"
#include "tests/spine/mesh_run.h"
#include "tests/spine/pipeline_cases.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

using testing::classifier;
using testing::expect_same_bits;
using testing::ExpectedSteps;
using testing::language_model;
using testing::MeshCase;
using testing::MeshResult;
using testing::NamedCase;
using testing::pipeline_cases;
using testing::result_alone;
using testing::TinyCase;

// The results must equal those of one rank bit for bit, because each chunk uses the same kernels in the same
// order. The number of micro-batches need not be a multiple of the number of stages.
TEST(InterleavedPipeline, MakeTheStepsOfOneRankToTheBit) {
  TinyCase test = classifier();
  test.layers = 8;
  for (const int64_t batches : {2, 4, 5, 8}) {
    const MeshResult expected = result_alone(test, batches);
    for (const auto& [stages, chunks] :
         std::vector<std::pair<int, int64_t>>{{2, 2}, {2, 4}, {4, 2}, {3, 2}}) {
      SCOPED_TRACE(fmt::format("{} stages of {} chunks, {} micro-batches", stages, chunks, batches));
      const RankMesh mesh{.size = stages, .pipeline_size = stages};
      const std::vector<MeshResult> results = results_of(
          test, {.mesh = mesh, .schedule = PipelineSchedule::kInterleaved, .chunks = chunks}, batches);
      expect_bits_of_one_rank(results, expected);
    }
  }
}

// Interleaved stages must work with data parallelism, tensor parallelism and ZeRO, just as stages with one
// chunk do.
TEST(InterleavedPipeline, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  for (NamedCase item : pipeline_cases()) {
    item.test.heads = 4;
    if (item.test.model_type == "llama") item.test.decoder.num_key_value_heads = 4;
    const ExpectedSteps expected(item.test, kBatches);
    std::vector<MeshCase> meshes{{.mesh = {.size = 2, .pipeline_size = 2}},
                                 {.mesh = {.size = 2, .pipeline_size = 2}, .late = true},
                                 {.mesh = {.size = 4, .pipeline_size = 2}},
                                 {.mesh = {.size = 4, .pipeline_size = 2}, .zero_stage = ZeroStage::kStates}};
    if (item.test.model_type != "modernbert")
      meshes.push_back({.mesh = {.size = 4, .tensor_size = 2, .pipeline_size = 2}});
    for (MeshCase& ranks : meshes) {
      ranks.schedule = PipelineSchedule::kInterleaved;
      ranks.chunks = 2;
      SCOPED_TRACE(fmt::format("{}, {} ranks, {} per group, ZeRO {}, late {}", item.name, ranks.mesh.size,
                               ranks.mesh.tensor_size, static_cast<int>(ranks.zero_stage), ranks.late));
      const std::vector<MeshResult> results = results_of(item.test, ranks, kBatches);
      for (const MeshResult& result : results) {
        EXPECT_EQ(result.norms, results.front().norms);
        expect_same_bits(result.tensors, results.front().tensors);
      }
      expected.check(joined(results, ranks.mesh));
    }
  }
}

// A run with several chunks per stage must be able to continue from a run with one chunk per stage, and the
// reverse.
TEST(InterleavedPipeline, ContinueTheStepsOfAnyNumberOfChunks) {
  constexpr int64_t kBatches = 4;
  TinyCase test = language_model("gpt2");
  test.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  const ExpectedSteps expected(test, kBatches);
  const RankMesh mesh{.size = 2, .pipeline_size = 2};
  const MeshCase chunks{.mesh = mesh, .schedule = PipelineSchedule::kInterleaved, .chunks = 2};
  for (const auto& [first, second] : std::vector<std::pair<MeshCase, MeshCase>>{
           {chunks, {}}, {chunks, {.mesh = mesh}}, {{}, chunks}, {{.mesh = mesh}, chunks}}) {
    const MeshResult saved = joined(results_of(test, first, kBatches, {}, 1), first.mesh);
    MeshResult found =
        joined(results_of(test, second, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second.mesh);
    found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
    found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
    expected.check(found);
  }
}

// Several micro-batches are in a pipeline at the same time. For each chunk of layers, the plan must reserve memory for
// the activations of exactly as many micro-batches as have passed forward but not yet backward through the chunk.
TEST(InterleavedPipeline, KeepActivationsPerChunk) {
  TinyCase test = classifier();
  test.dtype = DType::kF32;
  test.layers = 8;
  constexpr int64_t kBatches = 8, kChunks = 2;
  for (int rank = 0; rank < 4; ++rank) {
    const MeshCase ranks{.mesh = {.size = 4, .pipeline_size = 4},
                         .schedule = PipelineSchedule::kInterleaved,
                         .chunks = kChunks};
    const Plan plan = plan_of_rank(test, ranks, rank, kBatches);
    const ProgramPlan& train = plan.programs.at(kTrainProgram);
    ASSERT_EQ(std::ssize(train.chunk_slots), kChunks);
    std::vector<int64_t> saved(kChunks, 0);
    int64_t end = train.slots_begin;
    for (const TransientBuffer& buffer : train.buffers) {
      const Op& first = train.graph.ops()[buffer.first];
      const bool is_saved =
          first.segment == Segment::kForward && train.graph.ops()[buffer.last].segment != Segment::kForward;
      if (buffer.slot == 0 && is_saved) saved[static_cast<size_t>(chunk_of(first))] += buffer.bytes;
    }
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      const ChunkSlots& slots = train.chunk_slots[static_cast<size_t>(chunk)];
      EXPECT_EQ(slots.begin, end);
      EXPECT_EQ(slots.bytes, saved[static_cast<size_t>(chunk)]);
      end += slots.count * slots.bytes;
    }
    expect_apart(train, "train");
    ASSERT_EQ(std::ssize(plan.stages[static_cast<size_t>(rank)].chunks), kChunks);
    EXPECT_EQ(plan.stages[static_cast<size_t>(rank)].chunks[1].first_block,
              plan.request.ranks.first_blocks[static_cast<size_t>(rank) + 4]);
    EXPECT_GE(plan.arena_bytes, plan.lower_bound_bytes);
  }
}

// Across each boundary between chunks, the forward pass sends exactly one value to the next chunk, and the backward
// pass sends exactly one value to the previous chunk.
TEST(InterleavedPipeline, SendsOneValuePerBoundaryAndDirection) {
  for (const std::string model_type :
       {"bert", "gpt2", "llama", "modernbert", "roberta", "distilbert", "electra"}) {
    TinyCase test = classifier();
    test.model_type = model_type;
    test.dropout = 0.0;
    if (model_type == "llama") test.hidden_act = "silu";
    const MeshCase ranks{
        .mesh = {.size = 2, .pipeline_size = 2}, .schedule = PipelineSchedule::kInterleaved, .chunks = 2};
    const Plan plan = plan_of_rank(test, ranks, 1, 4);
    for (int64_t stage = 0; stage < 2; ++stage) {
      for (int64_t chunk = 0; chunk < 2; ++chunk) {
        SCOPED_TRACE(fmt::format("{}, chunk {} of stage {}", model_type, chunk, stage));
        const auto count = [&](Segment segment, StageAction::Kind kind) {
          return std::ranges::count_if(
              plan.stages[static_cast<size_t>(stage)].train[index_of(segment)],
              [&](const StageAction& action) { return action.kind == kind && action.chunk == chunk; });
        };
        const int64_t before = 2 * chunk + stage > 0 ? 1 : 0, after = 2 * chunk + stage < 3 ? 1 : 0;
        EXPECT_EQ(count(Segment::kForward, StageAction::Kind::kReceive), before);
        EXPECT_EQ(count(Segment::kForward, StageAction::Kind::kSend), after);
        EXPECT_EQ(count(Segment::kBackward, StageAction::Kind::kReceive), after);
        EXPECT_EQ(count(Segment::kBackward, StageAction::Kind::kSend), before);
      }
    }
  }
}

TEST(InterleavedPipeline, RefusesMoreChunksThanLayers) {
  try {
    testing::plan_of_rank(
        classifier(),
        {.mesh = {.size = 2, .pipeline_size = 2}, .schedule = PipelineSchedule::kInterleaved, .chunks = 3}, 0,
        4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("--pp_chunks 3: the model has 4 layers"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
