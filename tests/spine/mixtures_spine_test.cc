// Tests random combinations of everything that ranks can do together: data, tensor and pipeline parallelism,
// ZeRO, accumulation, bucket sizes, orders of queued ops, recomputation, optimizers, clipping and adapters, on several
// architectures. Each combination must give the results of one rank, within the bound that rounding permits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/spine/mesh_run.h"

namespace plimsoll {
namespace {

using testing::ExpectedSteps;
using testing::MeshCase;
using testing::MeshResult;
using testing::TinyCase;

// Returns the number of mixtures to test, which the variable PLIMSOLL_MIXTURES can change.
int num_mixtures() {
  const char* text = std::getenv("PLIMSOLL_MIXTURES");
  return text == nullptr ? 100 : std::stoi(text);
}

constexpr int64_t kBatches = 4;  // number of micro-batches per step, summed over all ranks

struct Mixture {
  std::string text;
  TinyCase test;
  MeshCase ranks;
};

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  template <typename T>
  T of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }

 private:
  std::mt19937 random_;
};

Mixture mixture(uint32_t seed) {
  Draw draw(seed);
  Mixture mixed;
  TinyCase& test = mixed.test;
  test.dtype = DType::kF64;
  test.reference_kernels = true;
  test.heads = 4;
  test.layers = 4;
  test.model_type = draw.of<std::string>({"bert", "gpt2", "llama"});
  if (test.model_type != "bert") test.problem_type = ProblemType::kCausalLm;
  if (test.model_type == "llama") {
    test.hidden_act = "silu";
    test.decoder.num_key_value_heads = 4;
  }
  test.optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .momentum = 0.9, .max_grad_norm = 0.0};
  test.recompute.policy =
      draw.of<RecomputePolicy>({RecomputePolicy::kNone, RecomputePolicy::kCheap, RecomputePolicy::kFull});
  MeshCase& ranks = mixed.ranks;
  ranks.mesh.size = draw.of<int>({2, 4});
  const std::string kind =
      draw.of<std::string>({"data", "tensor", "pipeline", "zero", "tensor and pipeline", "pipeline and zero",
                            "tensor and zero", "tensor, pipeline and zero", "context and zero"});
  const int size = draw.of<int>({2, ranks.mesh.size});
  if (kind == "tensor and pipeline") {
    const int data_size = draw.of<int>({1, 2});
    ranks.mesh = {.size = 4 * data_size, .tensor_size = 2, .pipeline_size = 2};
  }
  if (kind == "pipeline and zero") {
    ranks.mesh = {.size = 4, .pipeline_size = 2};
    ranks.zero_stage = ZeroStage::kStates;
  }
  if (kind == "tensor and zero") ranks.mesh = {.size = 4, .tensor_size = 2};
  if (kind == "tensor, pipeline and zero") {
    ranks.mesh = {.size = 8, .tensor_size = 2, .pipeline_size = 2};
    ranks.zero_stage = ZeroStage::kStates;
  }
  if (kind == "context and zero") {
    ranks.mesh = {.size = 4, .tensor_size = 2};
    ranks.context_parallel = true;
    ranks.zero_stage = draw.of<ZeroStage>({ZeroStage::kNone, ZeroStage::kStates, ZeroStage::kWeights});
  }
  if (kind == "tensor") ranks.mesh.tensor_size = size;
  if (kind == "pipeline") ranks.mesh.pipeline_size = size;
  if (kind == "zero" || kind == "tensor and zero") {
    ranks.zero_stage = draw.of<ZeroStage>({ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights});
    ranks.keeps_gathered = ranks.zero_stage == ZeroStage::kWeights && draw.of<int>({0, 1}) == 1;
  }
  if (draw.of<int>({0, 1}) == 1) test.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  ranks.schedule =
      draw.of<PipelineSchedule>({PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward});
  ranks.bucket_bytes = draw.of<int64_t>({1, 2048, 1 << 20});
  ranks.late = draw.of<int>({0, 1}) == 1;
  const bool chunks = draw.of<int>({0, 1}) == 1;
  if (chunks) test.chunked_loss = ChunkedLoss::kAlways;
  // The model has four layers, so two stages of two chunks have one layer per chunk.
  if (ranks.mesh.pipeline_size == 2 && draw.of<int>({0, 1}) == 1) {
    ranks.schedule = PipelineSchedule::kInterleaved;
    ranks.chunks = 2;
  }
  if (kind == "tensor and pipeline") ranks.context_parallel = draw.of<int>({0, 1}) == 1;
  ranks.sequence_parallel =
      ranks.mesh.tensor_size > 1 && !ranks.context_parallel && draw.of<int>({0, 1}) == 1;
  if (draw.of<int>({0, 1, 2}) == 2)
    test.lora = LoraConfig{.r = 3, .alpha = 8.0, .dropout = 0.2, .target_modules = {"all-linear"}};
  mixed.text = fmt::format(
      "mixture {}: {}{}, {}, {} ranks, {} per tensor-parallel group{}, {} stages of {} chunks, ZeRO {}{}, "
      "buckets of {} "
      "bytes, "
      "recompute {}, {}{}{}",
      seed, test.model_type, test.lora ? " with adapters" : "", kind, ranks.mesh.size, ranks.mesh.tensor_size,
      ranks.sequence_parallel  ? " that divides rows"
      : ranks.context_parallel ? " that divides rows only"
                               : "",
      ranks.mesh.pipeline_size, ranks.chunks, static_cast<int>(ranks.zero_stage),
      ranks.keeps_gathered ? ", kept" : "", ranks.bucket_bytes, recompute_policy_name(test.recompute.policy),
      test.optimizer.max_grad_norm > 0 ? "AdamW, clipping" : "SGD", ranks.late ? ", late" : "",
      chunks ? ", loss in chunks" : "");
  return mixed;
}

TEST(Mixtures, MakeTheStepsOfOneRank) {
  // The results of one rank. The key describes all settings on which they depend.
  std::map<std::string, ExpectedSteps> expected;
  double share = 0;
  const auto count = static_cast<uint32_t>(num_mixtures());
  for (uint32_t seed = 1; seed <= count; ++seed) {
    const Mixture mixed = mixture(seed);
    SCOPED_TRACE(mixed.text);
    const std::string key = mixed.test.model_type +
                            (mixed.test.optimizer.max_grad_norm > 0 ? " AdamW" : " SGD") +
                            (mixed.test.lora ? " of adapters" : "");
    auto found = expected.find(key);
    if (found == expected.end()) found = expected.emplace(key, ExpectedSteps(mixed.test, kBatches)).first;
    const std::vector<MeshResult> results = results_of(mixed.test, mixed.ranks, kBatches);
    expect_equal_ranks(results);
    share = std::max(share, found->second.check(joined(results, mixed.ranks.mesh)));
    if (HasFailure()) break;
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

}  // namespace
}  // namespace plimsoll
