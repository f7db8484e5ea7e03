// Tests ranks that are the stages of a pipeline. They must make the same training steps as one rank, also in
// combination with data parallelism. The ranks are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "graph/ops/ops.h"
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

// The results must equal those of one rank bit for bit, because every stage uses the same kernels in the same
// order. Only the gradient norm may differ: each stage adds its squares and rounds its own norm, and a sum of n
// squares has a relative error of at most n u.
TEST(PipelineRanks, MakeTheStepsOfOneRankToTheBit) {
  const TinyCase test = classifier();
  constexpr int64_t kBatches = 4;
  const MeshResult expected = result_alone(test, kBatches);
  for (const int stages : {2, 4}) {
    for (const PipelineSchedule schedule :
         {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
      SCOPED_TRACE(fmt::format("{} stages, schedule {}", stages, static_cast<int>(schedule)));
      const RankMesh mesh{.size = stages, .pipeline_size = stages};
      const std::vector<MeshResult> results =
          results_of(test, {.mesh = mesh, .schedule = schedule}, kBatches);
      expect_bits_of_one_rank(results, expected);
    }
  }
}

TEST(PipelineRanks, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  for (const NamedCase& item : pipeline_cases()) {
    const ExpectedSteps expected(item.test, kBatches);
    for (const RankMesh& mesh :
         {RankMesh{.size = 2, .pipeline_size = 2}, RankMesh{.size = 4, .pipeline_size = 4},
          RankMesh{.size = 4, .pipeline_size = 2}}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks in {} stages", item.name, mesh.size, mesh.pipeline_size));
      const std::vector<MeshResult> results = results_of(item.test, {.mesh = mesh}, kBatches);
      for (const MeshResult& result : results) {
        EXPECT_EQ(result.norms, results.front().norms);
        expect_same_bits(result.tensors, results.front().tensors);
      }
      expected.check(joined(results, mesh));
    }
  }
}

// Pipeline parallelism must work together with tensor parallelism (ranks divide the layers of a stage) and with
// ZeRO (ranks divide the optimizer states of a stage).
TEST(PipelineRanks, CombineWithTensorParallelismAndDividedStates) {
  constexpr int64_t kBatches = 4;
  for (NamedCase item : pipeline_cases()) {
    // ModernBERT's heads cannot be divided among ranks in this test.
    if (item.test.model_type == "modernbert") continue;
    item.test.heads = 4;
    if (item.test.model_type == "llama") item.test.decoder.num_key_value_heads = 4;
    const ExpectedSteps expected(item.test, kBatches);
    const std::vector<MeshCase> meshes{
        {.mesh = {.size = 4, .tensor_size = 2, .pipeline_size = 2}},
        {.mesh = {.size = 8, .tensor_size = 2, .pipeline_size = 2}, .schedule = PipelineSchedule::kGpipe},
        {.mesh = {.size = 4, .pipeline_size = 2}, .zero_stage = ZeroStage::kStates}};
    for (const MeshCase& ranks : meshes) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, {} per group, ZeRO {}", item.name, ranks.mesh.size,
                               ranks.mesh.tensor_size, static_cast<int>(ranks.zero_stage)));
      const std::vector<MeshResult> results = results_of(item.test, ranks, kBatches);
      for (const MeshResult& result : results) {
        EXPECT_EQ(result.norms, results.front().norms);
        expect_same_bits(result.tensors, results.front().tensors);
      }
      expected.check(joined(results, ranks.mesh));
    }
  }
}

// A step with one micro-batch must also work. In this case the gradients are not persistent, because nothing is
// accumulated.
TEST(PipelineRanks, MakeStepsOfOneMicroBatch) {
  const TinyCase test = language_model("gpt2");
  const RankMesh mesh{.size = 2, .pipeline_size = 2};
  ExpectedSteps(test, 1).check(joined(results_of(test, {.mesh = mesh}, 1), mesh));
}

// Weights and states can be read as whole tensors, so a run with another number of stages must be able to
// continue from them.
TEST(PipelineRanks, ContinueTheStepsOfAnyNumberOfStages) {
  constexpr int64_t kBatches = 4;
  TinyCase test = language_model("gpt2");
  test.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  const ExpectedSteps expected(test, kBatches);
  const std::vector<RankMesh> meshes{
      {}, {.size = 2, .pipeline_size = 2}, {.size = 4, .pipeline_size = 2}, {.size = 4, .pipeline_size = 4}};
  for (const RankMesh& first : meshes) {
    const MeshResult saved = joined(results_of(test, {.mesh = first}, kBatches, {}, 1), first);
    for (const RankMesh& second : meshes) {
      if (second == first) continue;
      SCOPED_TRACE(fmt::format("{} stages after {}", second.pipeline_size, first.pipeline_size));
      MeshResult found = joined(
          results_of(test, {.mesh = second}, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second);
      found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
      found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
      expected.check(found);
    }
  }
}

// With tied embeddings, the first stage (embedding) and the last stage (head) both store the shared table, and
// read it in different ways in mixed precision. Its bits must stay the same on both.
TEST(PipelineRanks, StoreWeightsInHalves) {
  for (const MasterWeights master : {MasterWeights::kAuto, MasterWeights::kWhole}) {
    for (const int64_t batches : {1, 4}) {
      TinyCase test{.model_type = "gpt2",
                    .problem_type = ProblemType::kCausalLm,
                    .optimizer = {.master_weights = master},
                    .reference_kernels = true,
                    .layers = 4,
                    .activations = DType::kBF16};
      const RankMesh mesh{.size = 2, .pipeline_size = 2};
      const std::vector<MeshResult> results = results_of(test, {.mesh = mesh}, batches);
      expect_same_bits(results[0].tensors, results[1].tensors);
      const MeshResult one = result_alone(test, batches);
      // Activations are rounded to bf16. If terms are added in another order, a value may be rounded to the
      // neighbouring bf16 number. The loss, a mean over tokens, changes by less than a few such roundings.
      ASSERT_EQ(results[1].losses.size(), one.losses.size());
      for (size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(results[1].losses[i], one.losses[i],
                    4 * unit_roundoff(DType::kBF16) * std::abs(one.losses[i]));
    }
  }
}

int64_t in_arena(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Each stage must reserve memory for exactly its own weights, states and gradients.
TEST(PipelineRanks, HaveRoomForTheirLayers) {
  TinyCase test = language_model("gpt2");
  test.dtype = DType::kF32;
  const Plan whole = plan_of_rank(test, {}, 0, 4);
  const MeshCase pipeline{.mesh = {.size = 4, .pipeline_size = 4}};
  std::map<std::string, int> holders;
  for (int rank = 0; rank < 4; ++rank) {
    const Plan plan = plan_of_rank(test, pipeline, rank, 4);
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kMessage) {
        // A message between stages has tokens x hidden size elements in fp32.
        EXPECT_EQ(buffer.bytes, in_arena(17 * 16 * 4)) << buffer.name;
        continue;
      }
      if (whole.persistent_by_name.contains(buffer.name)) {
        EXPECT_EQ(buffer.bytes, whole.buffer(buffer.name).bytes) << buffer.name;
      } else {
        // The first and the last stage share the embedding table, and each computes one part of its gradient.
        // Such a part is stored in a buffer whose name differs from that of the complete gradient.
        EXPECT_TRUE(buffer.storage == Storage::kGradient) << buffer.name;
        EXPECT_EQ(buffer.bytes, in_arena(37 * 16 * 4)) << buffer.name;
      }
      if (buffer.storage == Storage::kWeight) ++holders[buffer.name];
    }
    expect_apart(plan.programs.at(kTrainProgram), "train");
    EXPECT_LT(plan.arena_bytes, whole.arena_bytes);
    ASSERT_EQ(plan.stages.size(), 4u);
    EXPECT_EQ(plan.stages[static_cast<size_t>(rank)].arena_bytes, plan.arena_bytes);
  }
  int num_weights = 0;
  for (const PersistentBuffer& buffer : whole.persistent) {
    if (buffer.storage != Storage::kWeight) continue;
    ++num_weights;
    // The word embeddings are stored twice: the first stage reads them for the embedding and the last one for
    // the head.
    EXPECT_EQ(holders[buffer.name], buffer.name.find("wte") != std::string::npos ? 2 : 1) << buffer.name;
  }
  EXPECT_EQ(std::ssize(holders), num_weights);
}

// With the schedule gpipe, a stage must have memory for the activations of all micro-batches. With 1f1b, stage
// s of S needs memory for at most S - s micro-batches. All other memory must have the same size.
TEST(PipelineRanks, KeepActivationsPerMicroBatch) {
  TinyCase test = classifier();
  test.dtype = DType::kF32;
  constexpr int64_t kBatches = 8;
  const RankMesh mesh{.size = 4, .pipeline_size = 4};
  for (int rank = 0; rank < 4; ++rank) {
    const Plan gpipe =
        plan_of_rank(test, {.mesh = mesh, .schedule = PipelineSchedule::kGpipe}, rank, kBatches);
    const Plan turns = plan_of_rank(test, {.mesh = mesh}, rank, kBatches);
    const ProgramPlan& all = gpipe.programs.at(kTrainProgram);
    EXPECT_EQ(all.num_slots, kBatches);
    EXPECT_EQ(turns.programs.at(kTrainProgram).num_slots, 4 - rank);
    int64_t slot_bytes = 0;
    for (const TransientBuffer& buffer : all.buffers) {
      const bool is_saved = all.graph.ops()[buffer.first].segment == Segment::kForward &&
                            all.graph.ops()[buffer.last].segment != Segment::kForward;
      if (buffer.slot == 0 && is_saved) slot_bytes += buffer.bytes;
    }
    EXPECT_EQ(all.slot_bytes, slot_bytes);
    if (rank < 3) {
      EXPECT_EQ(gpipe.arena_bytes - turns.arena_bytes, (kBatches - (4 - rank)) * slot_bytes);
    }
    EXPECT_GE(gpipe.arena_bytes, gpipe.lower_bound_bytes);
  }
}

// Across each boundary between stages, the forward pass sends exactly one value to the next stage, and the backward
// pass sends exactly one value to the previous stage. All values have the same size.
TEST(PipelineRanks, SendOneValuePerBoundaryAndDirection) {
  for (const std::string model_type :
       {"bert", "gpt2", "llama", "modernbert", "roberta", "distilbert", "electra"}) {
    TinyCase test = classifier();
    test.model_type = model_type;
    test.dropout = 0.0;
    if (model_type == "llama") test.hidden_act = "silu";
    const Plan plan = plan_of_rank(test, {.mesh = {.size = 4, .pipeline_size = 4}}, 1, 4);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      std::map<StageAction::Kind, int> forward, backward;
      for (const StageAction& action : plan.stages[stage].train[index_of(Segment::kForward)])
        ++forward[action.kind];
      for (const StageAction& action : plan.stages[stage].train[index_of(Segment::kBackward)])
        ++backward[action.kind];
      SCOPED_TRACE(fmt::format("{}, stage {}", model_type, stage));
      EXPECT_EQ(forward[StageAction::Kind::kReceive], stage > 0 ? 1 : 0);
      EXPECT_EQ(forward[StageAction::Kind::kSend], stage < 3 ? 1 : 0);
      EXPECT_EQ(backward[StageAction::Kind::kReceive], stage < 3 ? 1 : 0);
      EXPECT_EQ(backward[StageAction::Kind::kSend], stage > 0 ? 1 : 0);
    }
  }
}

// If a gradient of one stage is infinite or NaN, no stage may update its weights, and all ranks of that stage
// must name the same gradient.
TEST(PipelineRanks, SkipAnUpdateWithANumberThatIsNotFinite) {
  const TinyCase test{.layers = 4};
  const RankMesh mesh{.size = 4, .pipeline_size = 2};
  std::vector<Plan> plans;
  for (int rank = 0; rank < 4; ++rank) plans.push_back(plan_of_rank(test, {.mesh = mesh}, rank, 4));
  std::vector<std::string> bad(4);
  testing::run_on_mesh(mesh, [&](int rank, const RankConnections& connections) {
    const Plan& plan = plans[static_cast<size_t>(rank)];
    Executor executor(plan, {.connections = connections});
    testing::fill_by_name(executor);
    for (const ScheduledRun& run : all_runs(plan.step_schedule, 2)) {
      if (run.micro_batch >= 0) {
        const testing::TinyBatch batch =
            testing::tiny_batch(test, testing::mesh_lengths(0), static_cast<uint32_t>(run.micro_batch));
        executor.stage(kTrainProgram, batch.tensors(plan.programs.at(kTrainProgram)),
                       mesh.data_rank(rank) == 0 ? 1e-45 : 6.0,
                       {.slot = run.micro_batch % plan.programs.at(kTrainProgram).num_slots});
        executor.set_random(42, run.micro_batch);
        executor.set_accumulate(run.micro_batch > 0);
      } else {
        executor.set_update(testing::kMeshRate, 1);
      }
      executor.run(kTrainProgram, run.segment);
    }
    EXPECT_FALSE(executor.finite());
    bad[static_cast<size_t>(rank)] = executor.first_bad_gradient();
  });
  for (const size_t first_of_stage : {0, 2}) {
    EXPECT_NE(bad[first_of_stage], "");
    EXPECT_EQ(bad[first_of_stage], bad[first_of_stage + 1]);
  }
}

TEST(PipelineRanks, RefuseMoreStagesThanLayers) {
  try {
    testing::plan_of_rank({}, {.mesh = {.size = 3, .pipeline_size = 3}}, 0, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(
        error.what(),
        "--pp_size 3: the model has 2 layers, and every stage of a pipeline needs at least one; give a "
        "--pp_size of at most 2");
  }
}

// In ZeRO stage 1 the ranks of a stage divide the lower halves of split weights. The bytes of a weight that each rank can provide for a
// checkpoint must be those of the whole weight, and those of all ranks of the stage must not leave a gap.
TEST(PipelineRanks, EachRankProvidesItsSliceOfSplitWeights) {
  for (const char* model : {"bert", "gpt2"}) {
    TinyCase test{.model_type = model,
                  .reference_kernels = true,
                  .hidden = 24,
                  .heads = 4,
                  .activations = DType::kBF16};
    if (std::string(model) == "gpt2") test.problem_type = ProblemType::kCausalLm;
    test.optimizer.master_weights = MasterWeights::kSplit;
    const MeshCase ranks{.mesh = {.size = 4, .pipeline_size = 2}, .zero_stage = ZeroStage::kStates};
    std::vector<Plan> plans;
    plans.reserve(static_cast<size_t>(ranks.mesh.size));
    for (int rank = 0; rank < ranks.mesh.size; ++rank)
      plans.push_back(testing::plan_of_rank(test, ranks, rank, 4));
    ASSERT_FALSE(plans.front().split_weights.empty());
    std::mutex mutex;
    std::map<std::string, int64_t> provided;
    testing::run_on_mesh(ranks.mesh, [&](int rank, const RankConnections& connections) {
      const Plan& plan = plans[static_cast<size_t>(rank)];
      Executor executor(plan, {.connections = connections});
      testing::fill_by_name(executor);
      for (const WeightSpec& spec : plan.weights) {
        const int64_t width = dtype_bytes(plan.type_of(spec.name).dtype);
        std::vector<std::byte> whole(static_cast<size_t>(spec.elements() * width));
        executor.read(spec.name, 0, whole);
        const Executor::OwnBytes own = executor.own_bytes(spec.name);
        std::vector<std::byte> slice(static_cast<size_t>(own.end - own.begin));
        if (!slice.empty()) executor.read_own(spec.name, own.begin, slice);
        EXPECT_TRUE(std::equal(slice.begin(), slice.end(), whole.begin() + own.begin)) << spec.name;
        const std::lock_guard lock(mutex);
        provided[spec.name] += std::ssize(slice);
      }
    });
    for (const WeightSpec& spec : plans.front().weights) {
      EXPECT_EQ(provided[spec.name], spec.elements() * dtype_bytes(plans.front().type_of(spec.name).dtype))
          << spec.name;
    }
  }
}

}  // namespace
}  // namespace plimsoll