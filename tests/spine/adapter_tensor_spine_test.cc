// Tests that ranks which divide the layers of a model make the same steps of its adapters as one rank, with divided rows (sequence
// parallelism) and without them, alone and in the stages of a pipeline. Each rank is a thread of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "exec/quantized_weights.h"
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

constexpr RankMesh kTwoRanks{.size = 2, .tensor_size = 2};

// Adapters of all linear layers. All of them use dropout, so that wrong random numbers would change the results.
LoraConfig adapters_of_all() {
  return {.r = 3, .alpha = 8.0, .dropout = 0.2, .target_modules = {"all-linear"}};
}

std::vector<NamedCase> adapter_cases() {
  std::vector<NamedCase> list;
  TinyCase bert = classifier();
  bert.heads = 4;
  bert.layers = 2;
  bert.lora = adapters_of_all();
  list.push_back({"bert", bert});
  TinyCase some = bert;
  // Query, key and value are fused into one weight, and only query and value get adapters. The adapters are scaled by alpha / r = 1.
  some.lora = {.r = 4, .alpha = 4.0, .target_modules = {"query", "value", "output.dense"}};
  some.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  list.push_back({"bert, some modules, AdamW, clipping", some});
  TinyCase saved = bert;
  saved.problem_type = ProblemType::kMaskedLm;
  saved.lora->modules_to_save = {"word_embeddings"};
  list.push_back({"bert, masked words, words that are saved with the adapter", saved});
  TinyCase gpt2 = language_model("gpt2");
  gpt2.heads = 4;
  gpt2.layers = 2;
  gpt2.lora = adapters_of_all();
  gpt2.lora->use_rslora = true;
  list.push_back({"gpt2, rsLoRA", gpt2});
  gpt2.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  gpt2.recompute.policy = RecomputePolicy::kFull;
  list.push_back({"gpt2, AdamW, clipping, full recomputation", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kNone;
  gpt2.chunked_loss = ChunkedLoss::kAlways;
  list.push_back({"gpt2, AdamW, clipping, no recomputation, loss in chunks", gpt2});
  TinyCase llama = language_model("llama");
  llama.heads = 4;
  llama.layers = 2;
  llama.hidden_act = "silu";
  llama.decoder.num_key_value_heads = 4;
  llama.lora = adapters_of_all();
  list.push_back({"llama", llama});
  llama.decoder.qkv_bias = llama.decoder.output_bias = llama.decoder.mlp_bias = llama.decoder.head_norms =
      true;
  llama.lora->layers_to_transform = {1};
  llama.lora->target_modules = {"k_proj", "v_proj", "o_proj", "up_proj", "down_proj"};
  list.push_back({"llama, biases, norms of heads, modules of one layer", llama});
  TinyCase modern = bert;
  modern.model_type = "modernbert";
  list.push_back({"modernbert, dropout in feed-forward layers", modern});
  return list;
}

TEST(AdaptersOfTensorParallelRanks, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  double share = 0;
  for (const NamedCase& item : adapter_cases()) {
    const ExpectedSteps expected(item.test, kBatches);
    for (const RankMesh& mesh :
         {kTwoRanks, RankMesh{.size = 4, .tensor_size = 2}, RankMesh{.size = 4, .tensor_size = 4}}) {
      for (const bool divides_rows : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks in groups of {}{}", item.name, mesh.size, mesh.tensor_size,
                                 divides_rows ? " that divide rows" : ""));
        const std::vector<MeshResult> results = results_of(
            item.test, {.mesh = mesh, .sequence_parallel = divides_rows, .late = mesh.size == 2}, kBatches);
        expect_equal_ranks(results);
        share = std::max(share, expected.check(joined(results, mesh)));
      }
    }
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

// Each pipeline stage must have the adapters of its own layers, and no others.
TEST(AdaptersOfStages, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  double share = 0;
  for (const NamedCase& item : adapter_cases()) {
    if (!item.test.lora->layers_to_transform.empty()) continue;
    const ExpectedSteps expected(item.test, kBatches);
    for (const MeshCase& ranks : std::vector<MeshCase>{
             {.mesh = {.size = 2, .pipeline_size = 2}},
             {.mesh = {.size = 4, .pipeline_size = 2}, .zero_stage = ZeroStage::kStates},
             {.mesh = {.size = 4, .tensor_size = 2, .pipeline_size = 2}, .late = true},
             {.mesh = {.size = 4, .tensor_size = 2, .pipeline_size = 2}, .sequence_parallel = true}}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks in groups of {}{}, 2 stages", item.name, ranks.mesh.size,
                               ranks.mesh.tensor_size, ranks.sequence_parallel ? " that divide rows" : ""));
      const std::vector<MeshResult> results = results_of(item.test, ranks, kBatches);
      expect_equal_ranks(results);
      share = std::max(share, expected.check(joined(results, ranks.mesh)));
    }
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

// Each weight is quantized to 8 or 4 bits as a whole, and each rank stores its part of the quantized values and scales. The bound for
// differences is measured by changing weights slightly, which is possible only for weights that are not quantized. These are enough,
// because every layer has several of them before and after each quantized weight.
TEST(AdaptersOfQuantizedWeights, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 2;
  const std::vector<std::pair<std::string, BaseWeights>> cases{{"bert", BaseWeights::kInt8},
                                                               {"llama", BaseWeights::kInt8},
                                                               {"bert", BaseWeights::kFp4},
                                                               {"llama", BaseWeights::kNf4}};
  for (const auto& [model_type, format] : cases) {
    TinyCase test = model_type == "bert" ? classifier() : language_model(model_type);
    test.heads = 4;
    test.layers = 2;
    if (model_type == "llama") {
      test.hidden_act = "silu";
      test.decoder.num_key_value_heads = 2;
      test.tied = false;
    }
    // Quantization in 4 bits needs blocks of 64 columns. With 128 columns, each of two ranks stores one such
    // block of the matrix after attention.
    if (format != BaseWeights::kInt8) test.hidden = 128;
    test.lora = adapters_of_all();
    test.lora->base_weights = format;
    const ExpectedSteps expected(test, kBatches);
    for (const MeshCase& ranks : std::vector<MeshCase>{
             {.mesh = kTwoRanks},
             {.mesh = kTwoRanks, .sequence_parallel = true},
             {.mesh = {.size = 2, .pipeline_size = 2}},
             {.mesh = {.size = 4, .tensor_size = 2, .pipeline_size = 2}, .sequence_parallel = true}}) {
      SCOPED_TRACE(fmt::format("{}, format {}, {} ranks in groups of {}, {} stages", model_type,
                               static_cast<int>(format), ranks.mesh.size, ranks.mesh.tensor_size,
                               ranks.mesh.pipeline_size));
      const std::vector<MeshResult> results = results_of(test, ranks, kBatches);
      expect_equal_ranks(results);
      expected.check(joined(results, ranks.mesh));
    }
    // Each rank must store half of the quantized values (codes) of each weight that the two ranks divide.
    const Plan plan = plan_of_rank(test, {.mesh = kTwoRanks}, 0, 1);
    int num_divided = 0;
    for (const WeightSpec& spec : plan.weights) {
      if (!is_quantized(plan, spec.name)) continue;
      const PersistentBuffer& codes = plan.buffer(spec.name);
      if (!codes.split || codes.split->has_padding()) continue;
      EXPECT_EQ(2 * codes.elements(), codes.whole_elements()) << spec.name;
      ++num_divided;
    }
    EXPECT_GE(num_divided, 2 * 4);
  }
}

// A run saves whole adapters and states, so a run on any other arrangement of ranks (mesh) must be able to continue from them.
TEST(AdaptersOfTensorParallelRanks, ContinueTheStepsOfAnyMesh) {
  constexpr int64_t kBatches = 4;
  const NamedCase item = adapter_cases().at(4);
  const ExpectedSteps expected(item.test, kBatches);
  const std::vector<MeshCase> meshes{{},
                                     {.mesh = kTwoRanks},
                                     {.mesh = kTwoRanks, .sequence_parallel = true},
                                     {.mesh = {.size = 4, .tensor_size = 4}},
                                     {.mesh = {.size = 2, .pipeline_size = 2}}};
  for (const MeshCase& first : meshes) {
    const MeshResult saved = joined(results_of(item.test, first, kBatches, {}, 1), first.mesh);
    for (const MeshCase& second : meshes) {
      MeshResult found = joined(
          results_of(item.test, second, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second.mesh);
      found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
      found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
      expected.check(found);
    }
  }
}

// On a CPU the fast kernels, too, must draw the same dropout masks on several ranks as on one. With equal masks the losses of the
// first step differ only by roundings; with other masks they would differ by far more.
TEST(AdaptersOfTensorParallelRanks, DrawTheNumbersOfOneRankWithFastKernels) {
  for (const std::optional<DType> activations : {std::optional<DType>(), std::optional(DType::kBF16)}) {
    TinyCase test{.model_type = "gpt2", .problem_type = ProblemType::kCausalLm, .activations = activations};
    test.lora = adapters_of_all();
    test.lora->dropout = 0.5;
    test.dropout = 0.0;
    const MeshResult one = results_of(test, {.rounds_buckets = true}, 2).front();
    for (const bool divides_rows : {false, true}) {
      const MeshCase ranks{
          .mesh = kTwoRanks, .sequence_parallel = divides_rows, .rounds_buckets = !divides_rows};
      const std::vector<MeshResult> results = results_of(test, ranks, 2);
      expect_equal_ranks(results);
      // In bf16, a sum in another order may be rounded to the neighbouring number, and the loss, a mean over tokens, changes by less
      // than a few such roundings. In fp32 it changes by less than a few roundings for each of the 96 terms of the longest sum.
      const double bound =
          activations ? 4 * unit_roundoff(DType::kBF16) : 4 * 96 * unit_roundoff(DType::kF32);
      for (const size_t i : {0, 1})
        EXPECT_NEAR(results.front().losses[i], one.losses[i], bound * std::abs(one.losses[i]));
    }
  }
}

// An adapter consists of two matrices, A and B. Each rank stores only a part of one of them, and the whole other one. Per adapter,
// the ranks must make one sum: of the activations between A and B in the forward pass if A is divided, or of their gradients in the
// backward pass if B is divided.
TEST(AdaptersOfTensorParallelRanks, DivideOneOfTheMatrices) {
  TinyCase test = adapter_cases().front().test;
  const Plan plan = plan_of_rank(test, {.mesh = kTwoRanks}, 0, 1);
  int num_adapters = 0;
  for (const WeightSpec& spec : plan.weights) {
    const bool is_a = spec.name.find("lora_A") != std::string::npos;
    if (!is_a && spec.name.find("lora_B") == std::string::npos) continue;
    if (spec.name.find("encoder.layer.") == std::string::npos) {
      EXPECT_FALSE(plan.buffer(spec.name).split) << spec.name;
      continue;
    }
    const bool of_columns = spec.name.find("output.dense") != std::string::npos;
    EXPECT_EQ(static_cast<bool>(plan.buffer(spec.name).split), is_a == of_columns) << spec.name;
    ++num_adapters;
  }
  EXPECT_EQ(num_adapters, 2 * 2 * 6);
  const auto sums_of = [](const Plan& of) {
    std::map<Segment, int> sums;
    for (const Op& op : of.programs.at(kTrainProgram).graph.ops()) {
      if (op.def == &all_reduce_op() && mesh_axis_of(op.attributes) == MeshAxis::kTensor) ++sums[op.segment];
    }
    return sums;
  };
  test.lora.reset();
  test.freeze = {"*embeddings*"};
  std::map<Segment, int> sums = sums_of(plan_of_rank(test, {.mesh = kTwoRanks}, 0, 1));
  // Each layer has two adapters whose weights are divided by columns, which need a sum over the ranks in the forward pass, and
  // four adapters that need one in the backward pass.
  sums[Segment::kForward] += 2 * 2;
  sums[Segment::kBackward] += 2 * 4;
  EXPECT_EQ(sums_of(plan), sums);
  expect_apart(plan.programs.at(kTrainProgram), "train");
}

}  // namespace
}  // namespace plimsoll
