// Tests that ranks which have whole weights and divide the rows of all activations (context parallelism) make the same training steps as
// one rank. Each rank is a thread of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "kernels/element_wise/rounding.h"
#include "tests/spine/mesh_run.h"
#include "tests/spine/pipeline_cases.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

using testing::classifier;
using testing::ExpectedSteps;
using testing::language_model;
using testing::MeshCase;
using testing::MeshResult;
using testing::NamedCase;
using testing::TinyCase;

constexpr RankMesh kContextPair{.size = 2, .tensor_size = 2};

// All cases use dropout if their architecture has it, so that wrong random numbers change the results. Batches have at most 17 tokens
// and are padded to multiples of 16 or 32 rows, so that the last rank has padding rows, and two of four ranks have nothing else.
std::vector<NamedCase> context_cases() {
  TinyCase bert = classifier();
  bert.heads = 4;
  bert.layers = 2;
  std::vector<NamedCase> list{{"bert", bert}};
  TinyCase tokens = bert;
  tokens.problem_type = ProblemType::kTokenClassification;
  list.push_back({"bert, a label per token", tokens});
  TinyCase masked = bert;
  masked.problem_type = ProblemType::kMaskedLm;
  list.push_back({"bert, masked words", masked});
  TinyCase gpt2 = language_model("gpt2");
  gpt2.heads = 4;
  gpt2.layers = 2;
  list.push_back({"gpt2", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kFull;
  gpt2.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  list.push_back({"gpt2, AdamW, clipping, full recomputation", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kNone;
  gpt2.chunked_loss = ChunkedLoss::kAlways;
  list.push_back({"gpt2, AdamW, clipping, no recomputation, loss in chunks", gpt2});
  TinyCase llama = language_model("llama");
  llama.heads = 4;
  llama.layers = 2;
  llama.hidden_act = "silu";
  llama.decoder.num_key_value_heads = 4;
  llama.decoder.qkv_bias = llama.decoder.output_bias = llama.decoder.mlp_bias = llama.decoder.head_norms =
      true;
  list.push_back({"llama, biases, norms of heads", llama});
  TinyCase adapted = language_model("llama");
  adapted.heads = 4;
  adapted.layers = 2;
  adapted.hidden_act = "silu";
  adapted.lora = LoraConfig{.r = 2, .alpha = 4.0};
  list.push_back({"llama, adapters", adapted});
  TinyCase modern = bert;
  modern.model_type = "modernbert";
  list.push_back({"modernbert", modern});
  return list;
}

TEST(ContextParallelRanks, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  double share = 0;
  for (const NamedCase& item : context_cases()) {
    const ExpectedSteps expected(item.test, kBatches);
    for (const RankMesh& mesh :
         {kContextPair, RankMesh{.size = 4, .tensor_size = 2}, RankMesh{.size = 4, .tensor_size = 4}}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks in groups of {}", item.name, mesh.size, mesh.tensor_size));
      const std::vector<MeshResult> results =
          results_of(item.test, {.mesh = mesh, .context_parallel = true, .late = mesh.size == 2}, kBatches);
      expect_equal_ranks(results);
      share = std::max(share, expected.check(joined(results, mesh)));
    }
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

// With ZeRO, groups of ranks divide states, gradients and weights. All ranks of a group have the same batch and first sum their gradients.
TEST(ContextParallelRanks, DivideStatesBetweenGroups) {
  constexpr int64_t kBatches = 4;
  const NamedCase item = context_cases().at(4);
  const ExpectedSteps expected(item.test, kBatches);
  for (const ZeroStage stage : {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
    SCOPED_TRACE(fmt::format("ZeRO stage {}", static_cast<int>(stage)));
    const RankMesh mesh{.size = 4, .tensor_size = 2};
    const std::vector<MeshResult> results =
        results_of(item.test, {.mesh = mesh, .context_parallel = true, .zero_stage = stage}, kBatches);
    expect_equal_ranks(results);
    expected.check(joined(results, mesh));
  }
}

// With pipeline parallelism, each rank of a stage must compute only its own rows and send only these to the next stage.
TEST(ContextParallelRanks, DivideTheRowsOfStages) {
  constexpr int64_t kBatches = 4;
  for (const size_t i : {0, 4, 6}) {
    const NamedCase item = context_cases().at(i);
    SCOPED_TRACE(item.name);
    const ExpectedSteps expected(item.test, kBatches);
    const RankMesh mesh{.size = 4, .tensor_size = 2, .pipeline_size = 2};
    const std::vector<MeshResult> results =
        results_of(item.test, {.mesh = mesh, .context_parallel = true}, kBatches);
    expect_equal_ranks(results);
    expected.check(joined(results, mesh));
  }
}

// A run saves whole weights and states, so a run on any other arrangement of ranks (mesh) must be able to continue from them.
TEST(ContextParallelRanks, ContinueTheStepsOfAnyMesh) {
  constexpr int64_t kBatches = 4;
  const NamedCase item = context_cases().at(4);
  const ExpectedSteps expected(item.test, kBatches);
  const std::vector<MeshCase> meshes{{},
                                     {.mesh = kContextPair, .sequence_parallel = true},
                                     {.mesh = kContextPair, .context_parallel = true}};
  for (const MeshCase& first : meshes) {
    const MeshResult saved = joined(results_of(item.test, first, kBatches, {}, 1), first.mesh);
    for (const MeshCase& second : meshes) {
      if (!first.context_parallel && !second.context_parallel) continue;
      MeshResult found = joined(
          results_of(item.test, second, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second.mesh);
      found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
      found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
      expected.check(found);
    }
  }
}

// In each pass, each attention must have two exchanges between ranks. Gradients are combined into groups, each of which is summed
// over the ranks at once.
TEST(ContextParallelRanks, ExchangeTwicePerAttentionAndPass) {
  using Counts = std::map<std::string, int>;
  const auto counts_of = [](const TinyCase& test, Segment segment, int64_t batches = 1) {
    const MeshCase ranks{.mesh = kContextPair, .context_parallel = true, .bucket_bytes = int64_t{1} << 20};
    const Plan plan = plan_of_rank(test, ranks, 0, batches);
    Counts counts;
    for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
      const auto& schema = schema_of(op);
      if (op.segment == segment && schema.is_communication()) ++counts[std::string(schema.name())];
    }
    return counts;
  };
  const TinyCase language{.model_type = "gpt2", .problem_type = ProblemType::kCausalLm, .layers = 3};
  // The forward pass needs one all_reduce, for the loss. The backward pass needs one for all gradients, which fit into one group of 1 MiB.
  EXPECT_EQ(counts_of(language, Segment::kForward), (Counts{{"exchange_heads", 6}, {"all_reduce", 1}}));
  EXPECT_EQ(counts_of(language, Segment::kBackward), (Counts{{"exchange_heads", 6}, {"all_reduce", 1}}));
  EXPECT_EQ(counts_of(language, Segment::kOptimizer), Counts{});
  // Gradients that accumulate over micro-batches must be summed over the ranks only once per step.
  EXPECT_EQ(counts_of(language, Segment::kBackward, 2), (Counts{{"exchange_heads", 6}}));
  EXPECT_EQ(counts_of(language, Segment::kOptimizer, 2), (Counts{{"all_reduce", 1}}));
  // A classifier reads only one row per sequence from the last attention, so the ranks gather these rows of its inputs and of its results.
  const TinyCase pooled{.layers = 3};
  EXPECT_EQ(counts_of(pooled, Segment::kForward), (Counts{{"exchange_heads", 6}, {"gather_rows", 2}}));
}

// Each of n ranks must save 1 / n of the values that a single rank saves of a layer for the backward pass. Only the statistics
// of rows, and the rows that a classifier reads, may have other sizes.
TEST(ContextParallelRanks, KeepTheirOwnRows) {
  const auto saved_bytes = [](const Plan& plan) {
    const ProgramPlan& program = plan.programs.at(kTrainProgram);
    const Graph& graph = program.graph;
    std::vector<bool> counted(graph.values().size(), false);
    int64_t bytes = 0;
    for (const Op& op : graph.ops()) {
      if (op.segment != Segment::kBackward) continue;
      for (const ValueId id : op.inputs) {
        if (id == kNoValue || graph.value(id).producer == kNoOp || counted[index_of(id)]) continue;
        const bool is_saved = graph.op(graph.value(id).producer).segment == Segment::kForward;
        if (!is_saved || !graph.value(id).type.shape.has_token_rows()) continue;
        counted[index_of(id)] = true;
        bytes += graph.value(id).bytes(program.bucket);
      }
    }
    return bytes;
  };
  for (const NamedCase& item : context_cases()) {
    SCOPED_TRACE(item.name);
    if (item.test.problem_type == ProblemType::kSingleLabel) continue;
    const MeshCase alone{.rounds_buckets = true};
    const Plan whole = plan_of_rank(item.test, alone, 0, 1);
    const Bucket bucket = whole.programs.at(kTrainProgram).bucket;
    for (const int size : {2, 4}) {
      const MeshCase ranks{.mesh = {.size = size, .tensor_size = size}, .context_parallel = true};
      const Plan plan = plan_of_rank(item.test, ranks, 0, 1);
      const Bucket rounded = plan.programs.at(kTrainProgram).bucket;
      const double share = static_cast<double>(saved_bytes(plan) * size) /
                           static_cast<double>(rounded.tokens) /
                           (static_cast<double>(saved_bytes(whole)) / static_cast<double>(bucket.tokens));
      // A rank saves the results of attention twice, before and after they are exchanged between ranks. Since a layer saves at least
      // eight values of this size, it saves at most 1/8 more. With norms of heads (head_norms), queries, keys and values are saved
      // twice too, which adds three values to at least ten others.
      EXPECT_GE(share, 0.99);
      EXPECT_LE(share, item.test.decoder.head_norms ? 1.3 : 1.125);
      expect_apart(plan.programs.at(kTrainProgram), "train");
    }
  }
}

}  // namespace
}  // namespace plimsoll
