// Tests that ranks which divide the layers of a model (tensor parallelism), and whose data-parallel groups also divide states, gradients
// and weights (ZeRO), make the same training steps as one rank. Each rank is a thread of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/element_wise/rounding.h"
#include "tests/spine/mesh_run.h"
#include "tests/spine/pipeline_cases.h"

namespace plimsoll {
namespace {

using testing::classifier;
using testing::ExpectedSteps;
using testing::language_model;
using testing::MeshCase;
using testing::MeshResult;
using testing::NamedCase;
using testing::TinyCase;

constexpr RankMesh kSquare{.size = 4, .tensor_size = 2};
constexpr RankMesh kCube{.size = 8, .tensor_size = 2, .pipeline_size = 2};
constexpr ZeroStage kStages[] = {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights};

std::vector<NamedCase> zero_cases() {
  TinyCase bert = classifier();
  bert.heads = 4;
  bert.layers = 2;
  std::vector<NamedCase> list{{"bert", bert}};
  TinyCase gpt2 = language_model("gpt2");
  gpt2.heads = 4;
  gpt2.layers = 2;
  gpt2.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  list.push_back({"gpt2, AdamW, clipping", gpt2});
  TinyCase llama = language_model("llama");
  llama.heads = 4;
  llama.layers = 2;
  llama.hidden_act = "silu";
  llama.decoder.num_key_value_heads = 2;
  llama.optimizer = gpt2.optimizer;
  llama.tied = false;
  list.push_back({"llama, untied, AdamW, clipping", llama});
  return list;
}

std::string described(const MeshCase& ranks) {
  return fmt::format("{} ranks, {} per group, {} stages, ZeRO {}{}{}", ranks.mesh.size,
                     ranks.mesh.tensor_size, ranks.mesh.pipeline_size, static_cast<int>(ranks.zero_stage),
                     ranks.keeps_gathered ? ", kept" : "", ranks.sequence_parallel ? ", rows divided" : "");
}

std::vector<MeshCase> divisions() {
  std::vector<MeshCase> list;
  for (const bool rows : {false, true}) {
    for (const ZeroStage stage : kStages)
      list.push_back({.mesh = kSquare, .sequence_parallel = rows, .zero_stage = stage, .late = rows});
    list.push_back({.mesh = kCube, .sequence_parallel = rows, .zero_stage = ZeroStage::kStates});
  }
  list.push_back({.mesh = kSquare, .zero_stage = ZeroStage::kWeights, .keeps_gathered = true});
  list.push_back({.mesh = {.size = 8, .tensor_size = 2}, .zero_stage = ZeroStage::kWeights});
  return list;
}

// With 2 micro-batches per step, each of the two data-parallel ranks computes one, so no gradients are accumulated.
// With 4 micro-batches, each rank accumulates the gradients of two.
TEST(ZeroInTensorGroups, MakesTheStepsOfOneRank) {
  double share = 0;
  for (const NamedCase& item : zero_cases()) {
    for (const int64_t batches : {2, 4}) {
      const ExpectedSteps expected(item.test, batches);
      for (const MeshCase& ranks : divisions()) {
        if (batches < ranks.mesh.data_size()) continue;
        SCOPED_TRACE(fmt::format("{}, {} micro-batches, {}", item.name, batches, described(ranks)));
        const std::vector<MeshResult> results = results_of(item.test, ranks, batches);
        expect_equal_ranks(results);
        share = std::max(share, expected.check(joined(results, ranks.mesh)));
      }
    }
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

// The ranks of a tensor-parallel group divide some weights into parts. With ZeRO, data-parallel ranks must divide each of these parts into
// slices. A weight that the tensor-parallel ranks do not divide is one part. In the plans of these tests, ZeRO divides weights of at least
// 17 elements.
TEST(ZeroInTensorGroups, StoresSlicesOfParts) {
  for (const NamedCase& item : zero_cases()) {
    for (const ZeroStage stage : kStages) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", item.name, static_cast<int>(stage)));
      const Plan whole = plan_of_rank(item.test, {.mesh = kSquare}, 0, 4);
      const Plan divided = plan_of_rank(item.test, {.mesh = kSquare, .zero_stage = stage}, 0, 4);
      int compared = 0;
      for (const PersistentBuffer& buffer : divided.persistent) {
        const bool is_divided = buffer.storage == Storage::kOptimizerState ||
                                (buffer.storage == Storage::kGradient && stage >= ZeroStage::kGradients) ||
                                (buffer.storage == Storage::kWeight && stage == ZeroStage::kWeights &&
                                 buffer.part_elements() >= 17);
        if (!is_divided) continue;
        // Two ranks divide the elements; the size of a slice is a multiple of 256 elements.
        const int64_t part = buffer.part_elements();
        const int64_t slice = std::min(part, ((part + 1) / 2 + 255) / 256 * 256);
        EXPECT_EQ(buffer.elements(), slice) << buffer.name;
        if (buffer.storage != Storage::kGradient) {
          EXPECT_EQ(whole.buffer(buffer.name).elements(), part) << buffer.name;
        }
        ++compared;
      }
      EXPECT_GT(compared, 10);
      EXPECT_LT(divided.arena_bytes, whole.arena_bytes);
    }
  }
}

// A run saves whole weights and states, so a run on any other arrangement of ranks (mesh) must be able to continue from them.
TEST(ZeroInTensorGroups, ContinuesTheStepsOfAnyMesh) {
  constexpr int64_t kBatches = 4;
  const NamedCase item = zero_cases().at(1);
  const ExpectedSteps expected(item.test, kBatches);
  const std::vector<MeshCase> meshes{{},
                                     {.mesh = {.size = 2}, .zero_stage = ZeroStage::kWeights},
                                     {.mesh = kSquare, .zero_stage = ZeroStage::kStates},
                                     {.mesh = kSquare, .zero_stage = ZeroStage::kWeights},
                                     {.mesh = kCube, .zero_stage = ZeroStage::kStates}};
  for (const MeshCase& first : meshes) {
    const MeshResult saved = joined(results_of(item.test, first, kBatches, {}, 1), first.mesh);
    for (const MeshCase& second : meshes) {
      SCOPED_TRACE(described(first) + ", then " + described(second));
      MeshResult found = joined(
          results_of(item.test, second, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second.mesh);
      found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
      found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
      expected.check(found);
    }
  }
}

}  // namespace
}  // namespace plimsoll
