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

// All cases draw dropout where their architecture has it, so that a wrong number of a draw changes the results.
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

}  // namespace
}  // namespace plimsoll
