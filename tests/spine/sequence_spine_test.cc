// Tests that ranks which divide the layers of a model and also the rows of the activations between its products (sequence parallelism) make
// the same training steps as one rank. Each rank is a thread of this process.
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

constexpr RankMesh kPair{.size = 2, .tensor_size = 2};

// Returns cases with dropout wherever the architecture has it. If a rank used wrong random numbers for its
// rows, the results would differ.
std::vector<NamedCase> sequence_cases() {
  TinyCase bert = classifier();
  bert.heads = 4;
  bert.layers = 2;
  std::vector<NamedCase> list{{"bert", bert}};
  TinyCase tokens = bert;
  tokens.problem_type = ProblemType::kTokenClassification;
  list.push_back({"bert, a label per token", tokens});
  TinyCase masked = bert;
  masked.problem_type = ProblemType::kMaskedLm;
  masked.label_share = 0.4;
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
  TinyCase modern = bert;
  modern.model_type = "modernbert";
  modern.dropout = 0.0;
  list.push_back({"modernbert", modern});
  return list;
}

TEST(SequenceParallelRanks, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  double share = 0;
  for (const NamedCase& item : sequence_cases()) {
    const ExpectedSteps expected(item.test, kBatches);
    for (const RankMesh& mesh :
         {kPair, RankMesh{.size = 4, .tensor_size = 2}, RankMesh{.size = 4, .tensor_size = 4},
          RankMesh{.size = 4, .tensor_size = 2, .pipeline_size = 2}}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks in groups of {}", item.name, mesh.size, mesh.tensor_size));
      const std::vector<MeshResult> results =
          results_of(item.test, {.mesh = mesh, .sequence_parallel = true, .late = mesh.size == 2}, kBatches);
      expect_equal_ranks(results);
      share = std::max(share, expected.check(joined(results, mesh)));
    }
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

// With sequence parallelism (ranks divide rows), the losses must have the same bits as with plain tensor
// parallelism: a sum over two ranks has only one order, gathers copy values, the fast kernels compute each row
// independently, and dropout draws the same numbers.
TEST(SequenceParallelRanks, HaveTheLossesOfWholeRowsToTheBit) {
  for (const char* model_type : {"bert", "gpt2", "llama"}) {
    for (const std::optional<DType> activations : {std::optional<DType>(), std::optional(DType::kBF16)}) {
      SCOPED_TRACE(fmt::format("{}, {}", model_type, activations ? "bf16" : "fp32"));
      TinyCase test{.model_type = model_type, .heads = 4, .activations = activations};
      if (test.model_type != "bert") test.problem_type = ProblemType::kCausalLm;
      if (test.model_type == "llama") {
        test.hidden_act = "silu";
        test.decoder.num_key_value_heads = 4;
      }
      const MeshCase whole{.mesh = kPair, .rounds_buckets = true};
      const MeshCase divided{.mesh = kPair, .sequence_parallel = true};
      const MeshResult expected = results_of(test, whole, 2).front();
      const std::vector<MeshResult> results = results_of(test, divided, 2);
      expect_equal_ranks(results);
      ASSERT_GE(expected.losses.size(), 2u);
      for (const size_t i : {0, 1}) EXPECT_EQ(results.front().losses[i], expected.losses[i]);
      const testing::MeshStart no_step{.first_step = testing::kMeshSteps + 1};
      EXPECT_EQ(results_of(test, divided, 2, no_step).front().evaluation_loss,
                results_of(test, whole, 2, no_step).front().evaluation_loss);
    }
  }
}

// Weights and states can be read as whole tensors, so a run on any other mesh, with sequence parallelism or
// without, must be able to continue from them.
TEST(SequenceParallelRanks, ContinueTheStepsOfAnyMesh) {
  constexpr int64_t kBatches = 4;
  const NamedCase item = sequence_cases().at(4);
  const ExpectedSteps expected(item.test, kBatches);
  const std::vector<MeshCase> meshes{{}, {.mesh = kPair}, {.mesh = kPair, .sequence_parallel = true}};
  for (const MeshCase& first : meshes) {
    const MeshResult saved = joined(results_of(item.test, first, kBatches, {}, 1), first.mesh);
    for (const MeshCase& second : meshes) {
      if (!first.sequence_parallel && !second.sequence_parallel) continue;
      MeshResult found = joined(
          results_of(item.test, second, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second.mesh);
      found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
      found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
      expected.check(found);
    }
  }
}

// In the forward pass each all-reduce of a layer is replaced by a reduce_scatter and a gather. The last layer
// of a classifier computes only the tokens that the classifier reads, whose rows are not divided. In the
// backward pass, the gradient of a gather is a reduce_scatter, and the gather itself runs again; the gradient
// of a reduce_scatter is a gather.
TEST(SequenceParallelRanks, ExchangeTwicePerBlockAndPass) {
  using Counts = std::map<std::string, int>;
  const auto counts_of = [](const TinyCase& test, Segment segment) {
    const Plan plan = plan_of_rank(test, {.mesh = kPair, .sequence_parallel = true}, 0, 1);
    Counts counts;
    for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
      const auto& schema = schema_of(op);
      if (op.segment == segment && schema.is_communication()) ++counts[std::string(schema.name())];
    }
    return counts;
  };
  // There must be one reduce_scatter for the word embeddings, and two per layer except the last. There must be one
  // gather before the query, key and value products of each layer, and one before the feed-forward products of each
  // layer except the last.
  EXPECT_EQ(counts_of({.layers = 3}, Segment::kForward),
            (Counts{{"reduce_scatter", 5}, {"gather_rows", 5}, {"all_reduce", 2}}));
  const TinyCase language{.model_type = "gpt2", .problem_type = ProblemType::kCausalLm, .layers = 3};
  // The head of a language model needs one gather of rows more than the head of a classifier. The all_reduce adds up the partial sums of
  // all ranks from which the loss is computed.
  EXPECT_EQ(counts_of(language, Segment::kForward),
            (Counts{{"reduce_scatter", 7}, {"gather_rows", 7}, {"all_reduce", 1}}));
  EXPECT_EQ(counts_of(language, Segment::kBackward),
            (Counts{{"reduce_scatter", 6}, {"gather_rows", 14}, {"all_reduce", 2}}));
  // To compute the norm of all gradients, the ranks exchange the norms of their own gradients with one all_gather.
  EXPECT_EQ(counts_of(language, Segment::kOptimizer), (Counts{{"all_gather", 1}}));
}

// Values of hidden size that are saved for the backward pass must contain only the rank's own rows.
TEST(SequenceParallelRanks, KeepTheirOwnRows) {
  for (const NamedCase& item : sequence_cases()) {
    if (item.test.recompute.policy == RecomputePolicy::kNone) continue;
    const MeshCase ranks{.mesh = kPair, .sequence_parallel = true};
    const Plan plan = plan_of_rank(item.test, ranks, 0, 1);
    const Graph& graph = plan.programs.at(kTrainProgram).graph;
    int divided = 0;
    for (const Op& op : graph.ops()) {
      if (op.segment != Segment::kBackward) continue;
      for (const ValueId id : op.inputs) {
        if (id == kNoValue || graph.value(id).producer == kNoOp) continue;
        const Op& producer = graph.op(graph.value(id).producer);
        const Shape& shape = graph.value(id).type.shape;
        if (producer.segment != Segment::kForward || shape.rank() != 2 || shape[1] != Dim(item.test.hidden))
          continue;
        EXPECT_FALSE(shape[0] == kDimT) << item.name << ": " << graph.value(id).name;
        divided += shape.row_ranks() > 1 ? 1 : 0;
      }
    }
    EXPECT_GT(divided, 0) << item.name;
    const MeshCase whole{.mesh = kPair, .rounds_buckets = true};
    EXPECT_LT(plan.arena_bytes, plan_of_rank(item.test, whole, 0, 1).arena_bytes) << item.name;
    expect_apart(plan.programs.at(kTrainProgram), "train");
  }
}

}  // namespace
}  // namespace plimsoll
