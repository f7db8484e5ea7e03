// Compares gradients of whole models with finite differences, using plan, executor and reference kernels in
// fp64; then compares the fast kernels in fp32 with the fp64 run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/activation_names.h"
#include "models/architecture.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

const std::vector<int> kLengths{5, 1, 7, 3};
constexpr Bucket kBucket{.tokens = 20, .sequences = 5, .longest = 8};

struct GradientCase {
  std::string_view name;
  TinyCase test;
};

// Returns a case of masked language modelling for every encoder. The word embeddings are also the matrix of
// the head, so they get gradients from both.
std::vector<GradientCase> masked_cases() {
  std::vector<GradientCase> cases;
  for (const Architecture* architecture : architectures()) {
    if (std::ranges::find(architecture->heads, &kMaskedLmHead, &Head::kind) == architecture->heads.end())
      continue;
    TinyCase masked{.model_type = std::string(architecture->model_type),
                    .problem_type = ProblemType::kMaskedLm};
    cases.push_back({"masked language model", masked});
    masked.label_share = 0.15;
    cases.push_back({"masked language model, rows with a label", masked});
    masked.chunked_loss = ChunkedLoss::kAlways;
    masked.label_smoothing = 0.1;
    masked.hidden_act = "silu";
    cases.push_back({"masked language model, chunked loss", masked});
    masked.tied = false;
    cases.push_back({"masked language model, untied, chunked loss", masked});
    masked.label_share = 1.0;
    cases.push_back({"masked language model, untied, chunked loss, each row", masked});
    masked.label_share = 0.15;
    masked.lora = LoraConfig{.r = 3, .alpha = 5.0};
    masked.lora->target_modules = {"all-linear"};
    cases.push_back({"masked language model, lora", masked});
  }
  return cases;
}

// Returns cases of Llama-like models. The settings in which members of this family differ are tested one by one and all together.
std::vector<GradientCase> decoder_cases() {
  std::vector<GradientCase> cases;
  TinyCase test{.model_type = "llama", .hidden_act = "silu"};
  test.heads = 4;
  test.decoder.num_key_value_heads = 1;
  cases.push_back({"one head of keys", test});
  test.decoder.num_key_value_heads = 2;
  test.decoder.head_dim = 6;
  test.decoder.qkv_bias = test.decoder.output_bias = test.decoder.mlp_bias = true;
  test.decoder.head_norms = true;
  test.decoder.sliding_window = 3;
  test.decoder.slides = {false, true};
  cases.push_back({"window, biases, norms of heads", test});
  test.dropout = 0.0;
  for (const RopeTypeName& row : kRopeTypeNames) {
    RopeParameters& rope = test.decoder.rope;
    rope = {.type = row.type, .theta = 50.0, .factor = 2.0, .original = 4.0, .attention_factor = 1.2};
    rope.short_factor = {1.0, 1.2, 1.4};
    rope.long_factor = {1.0, 2.0, 3.0};
    cases.push_back({row.name, test});
  }
  test.lora = LoraConfig{.r = 2, .alpha = 3.0};
  cases.push_back({"lora", test});
  test.lora->target_modules = {"all-linear"};
  cases.push_back({"lora everywhere", test});
  return cases;
}

// Two functions that change ModernBERT's configuration. Both set attention windows shorter than the texts and
// two different rotary embeddings. The second function also sets biases and mean pooling.
void use_local_attention(ModelConfig& config) {
  config.global_attn_every_n_layers = 2;
  config.local_attention = 4;
  config.rope.theta = 500.0;
  config.local_rope.theta = 50.0;
}
void use_biases_and_mean(ModelConfig& config) {
  use_local_attention(config);
  config.classifier_pooling = "mean";
  config.classifier_activation = "silu";
  config.norm_bias = config.classifier_bias = true;
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
}
void start_with_local_attention(ModelConfig& config) {
  use_biases_and_mean(config);
  config.norm_bias = config.qkv_bias = false;
  config.slides = {true, false, true};
  config.local_attention = 1;
}

std::vector<GradientCase> local_attention_cases() {
  std::vector<GradientCase> cases;
  TinyCase test{.model_type = "modernbert"};
  test.layers = 3;
  test.adjust = use_local_attention;
  cases.push_back({"local attention, no biases", test});
  test.hidden_act = "silu";
  test.adjust = use_biases_and_mean;
  cases.push_back({"local attention, biases, mean", test});
  test.adjust = start_with_local_attention;
  cases.push_back({"local attention from the first layer", test});
  test.problem_type = ProblemType::kTokenClassification;
  cases.push_back({"local attention, tokens", test});
  test.problem_type = ProblemType::kSingleLabel;
  test.lora = LoraConfig{.r = 2, .alpha = 3.0};
  test.lora->target_modules = {"Wqkv", "Wo", "Wi"};
  cases.push_back({"local attention, lora", test});
  return cases;
}

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> cases;
  for (const Architecture* architecture : architectures()) {
    const std::string model(architecture->model_type);
    cases.push_back({"plain", {.model_type = model}});
    cases.push_back({"no dropout", {.model_type = model, .dropout = 0.0}});
    cases.push_back(
        {"no passes",
         {.model_type = model,
          .disabled_passes = {"fuse", "common_subexpression", "recompute", "reorder", "in_place"}}});
  }
  for (const ActivationName& row : kActivationNames)
    cases.push_back({row.name, {.model_type = "distilbert", .hidden_act = std::string(row.name)}});
  cases.push_back({"multi-label", {.problem_type = ProblemType::kMultiLabel}});
  cases.push_back({"regression", {.problem_type = ProblemType::kRegression}});
  for (const Architecture* architecture : architectures()) {
    if (std::ranges::find(architecture->heads, &kTokenClassificationHead, &Head::kind) ==
        architecture->heads.end())
      continue;
    cases.push_back({"token classification",
                     {.model_type = std::string(architecture->model_type),
                      .problem_type = ProblemType::kTokenClassification}});
  }
  for (const GradientCase& item : decoder_cases()) cases.push_back(item);
  for (const GradientCase& item : local_attention_cases()) cases.push_back(item);
  // The word embeddings get gradients from the embedding and, if the head is tied to them, also from the head.
  TinyCase language{.problem_type = ProblemType::kCausalLm};
  for (const char* model_type : {"llama", "gpt2"}) {
    language.model_type = model_type;
    language.tied = true;
    cases.push_back({"language model", language});
    language.tied = false;
    cases.push_back({"language model, untied", language});
  }
  language.chunked_loss = ChunkedLoss::kAlways;
  language.label_smoothing = 0.1;
  cases.push_back({"language model, untied, chunked loss", language});
  language.tied = true;
  cases.push_back({"language model, chunked loss", language});
  language.z_coefficient = 0.05;
  cases.push_back({"language model, z-loss, chunked loss", language});
  language.chunked_loss = ChunkedLoss::kNever;
  cases.push_back({"language model, z-loss", language});
  for (const GradientCase& item : masked_cases()) cases.push_back(item);
  cases.push_back({"label smoothing", {.label_smoothing = 0.1}});
  cases.push_back({"chunked loss", {.label_smoothing = 0.1, .chunked_loss = ChunkedLoss::kAlways}});
  TinyCase frozen;
  frozen.freeze = {"bert.embeddings.*", "bert.encoder.layer.0.*", "*.bias"};
  cases.push_back({"frozen", frozen});
  TinyCase lora;
  lora.lora = LoraConfig{.r = 3, .alpha = 5.0, .dropout = 0.2};
  cases.push_back({"lora", lora});
  lora.model_type = "distilbert";
  lora.lora = LoraConfig{.r = 2, .alpha = 2.0};
  lora.lora->target_modules = {"all-linear"};
  cases.push_back({"lora everywhere", lora});
  return cases;
}

// Returns the gradients of all weights in fp64, from one backward pass without clipping. They are computed as
// the difference between the weights before and after a step of SGD with a learning rate of 1.
std::vector<double> gradient_of(const TinyCase& base, DType dtype, bool reference, const TinyBatch& batch) {
  TinyCase test = base;
  test.dtype = dtype;
  test.reference_kernels = reference;
  test.optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 0.0};
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  Executor executor(plan);
  testing::fill_weights(executor);
  std::vector<double> before;
  for (const WeightSpec& spec : plan.weights) {
    for (int64_t i = 0; i < spec.elements(); ++i) before.push_back(executor.tensor(spec.name).load(i));
  }
  testing::forward_backward(executor, batch, 3, static_cast<double>(batch.num_sequences()));
  executor.set_update(1.0, 1);
  executor.run(kTrainProgram, Segment::kOptimizer);
  EXPECT_TRUE(executor.finite());
  std::vector<double> gradient;
  size_t at = 0;
  for (const WeightSpec& spec : plan.weights) {
    for (int64_t i = 0; i < spec.elements(); ++i)
      gradient.push_back(before[at++] - executor.tensor(spec.name).load(i));
  }
  return gradient;
}

double loss_with(Executor& executor, const TinyBatch& batch) {
  stage(executor, kTrainProgram, batch, static_cast<double>(batch.num_sequences()));
  executor.set_random(42, 3);
  executor.run(kTrainProgram, Segment::kForward);
  return executor.loss();
}

TEST(Gradient, MatchesFiniteDifferencesInDouble) {
  int checked = 0;
  for (const GradientCase& item : gradient_cases()) {
    SCOPED_TRACE(std::string(item.name) + " " + item.test.model_type);
    const TinyBatch batch = testing::tiny_batch(item.test, kLengths, 11);
    const std::vector<double> gradient = gradient_of(item.test, DType::kF64, true, batch);
    TinyCase test = item.test;
    test.dtype = DType::kF64;
    test.reference_kernels = true;
    const Plan plan = build_plan(testing::tiny_request(test, kBucket));
    Executor executor(plan);
    testing::fill_weights(executor);
    size_t base = 0;
    for (const WeightSpec& spec : plan.weights) {
      if (!spec.trainable) {
        for (int64_t i = 0; i < spec.elements(); ++i) EXPECT_EQ(gradient[base++], 0.0) << spec.name;
        continue;
      }
      const View view = executor.tensor(spec.name);
      // Compares three elements of every weight.
      for (int64_t i : {int64_t{0}, spec.elements() / 3, spec.elements() - 1}) {
        const double value = view.load(i);
        constexpr double kStep = 1e-5;
        view.store(i, value + kStep);
        const double up = loss_with(executor, batch);
        view.store(i, value - kStep);
        const double down = loss_with(executor, batch);
        view.store(i, value);
        const double numeric = (up - down) / (2 * kStep);
        // The central difference has a truncation error of kStep^2 / 6 times the third derivative of the loss, and a rounding error of
        // 2^-53 / kStep times the loss.
        EXPECT_NEAR(gradient[base + static_cast<size_t>(i)], numeric, 2e-9 + 1e-6 * std::fabs(numeric))
            << spec.name << " element " << i;
        ++checked;
      }
      base += static_cast<size_t>(spec.elements());
    }
  }
  EXPECT_GT(checked, 500);
}

// Returns the padded sizes (bucket) with which the program runs this batch.
Bucket bucket_of_batch(const Plan& plan, const TinyBatch& batch) {
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  return bucket_for(program, batch.tensors(program).size());
}

// A language model head may compute only the rows that have a label. Loss and gradients must equal those of a
// head that computes all rows, because rows without a label only add zeros to each sum. This is tested with the
// padded size that a batch normally has, and with the largest one, which a batch with too many labels has.
TEST(Gradient, RowsWithoutALabelAddNothing) {
  constexpr Bucket kLarge{.tokens = 480, .sequences = 60, .longest = 8};
  std::vector<int> lengths;
  for (int i = 0; i < 60; ++i) lengths.push_back(i % 9 == 8 ? 0 : 1 + i % 8);
  int checked = 0;
  for (GradientCase& item : masked_cases()) {
    if (item.test.label_share == 1.0) continue;
    item.test.dropout = 0.0;
    item.test.dtype = DType::kF64;
    item.test.reference_kernels = true;
    const TinyBatch batch = testing::tiny_batch(item.test, lengths, 11);
    const auto run = [&](double label_share, int64_t label_rows) {
      TinyCase test = item.test;
      test.label_share = label_share;
      test.optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 0.0};
      const Plan plan = build_plan(testing::tiny_request(test, kLarge));
      EXPECT_EQ(bucket_of_batch(plan, batch).label_rows(), label_rows);
      Executor executor(plan, {.fill = 0xFF});
      testing::fill_weights(executor);
      std::vector<double> results{testing::forward_backward(executor, batch, 3, 7.0)};
      executor.set_update(1.0, 1);
      executor.run(kTrainProgram, Segment::kOptimizer);
      if (label_share < 1.0 && label_rows == kLarge.tokens) {
        EXPECT_EQ(executor.high_water_bytes(), plan.arena_bytes);
      }
      for (const WeightSpec& spec : plan.weights) {
        const std::vector<double> values = testing::values_of(executor, spec.name);
        results.insert(results.end(), values.begin(), values.end());
      }
      return results;
    };
    SCOPED_TRACE(std::string(item.name) + " " + item.test.model_type);
    const std::vector<double> each = run(1.0, 256);
    for (const auto& [label_share, label_rows] : {std::pair{0.3, int64_t{160}}, {0.01, int64_t{480}}}) {
      const std::vector<double> few = run(label_share, label_rows);
      ASSERT_EQ(few.size(), each.size());
      // The two results may differ by the rounding errors of double-precision sums of at most 480 terms.
      for (size_t i = 0; i < each.size(); ++i)
        ASSERT_NEAR(few[i], each[i], 480 * 0x1p-53 * (1.0 + std::fabs(each[i]))) << i;
      ++checked;
    }
  }
  EXPECT_GE(checked, 20);
}

// Compares the gradient that the fast kernels compute in fp32 with the one in fp64. The limit is for the norm of the difference
// of all gradients: an element passes through fewer than 2^7 dependent roundings, each by 2^-24 relative to the norm.
TEST(Gradient, FastKernelsAgreeWithDouble) {
  int checked = 0;
  for (const GradientCase& item : gradient_cases()) {
    SCOPED_TRACE(std::string(item.name) + " " + item.test.model_type);
    const TinyBatch batch = testing::tiny_batch(item.test, kLengths, 11);
    const std::vector<double> exact = gradient_of(item.test, DType::kF64, true, batch);
    const std::vector<double> fast = gradient_of(item.test, DType::kF32, false, batch);
    ASSERT_EQ(exact.size(), fast.size());
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      difference += (exact[i] - fast[i]) * (exact[i] - fast[i]);
      norm += exact[i] * exact[i];
    }
    EXPECT_GT(norm, 0.0);
    EXPECT_LE(std::sqrt(difference), 128 * 0x1p-24 * std::sqrt(norm));
    ++checked;
  }
  EXPECT_GE(checked, 9);
}

// Activations are bf16, and weights are fp32. The gradient equals that of fp64 up to the unit roundoff of bf16, 2^-8,
// times a factor for the number of roundings that an element passes through: about 8 per layer in the forward pass
// and as many in the backward pass, whose errors add up like a random walk (sqrt(2 * 2 * 8) = 6).
TEST(Gradient, Bf16ActivationsAgreeWithDouble) {
  for (const char* model : {"bert", "distilbert"}) {
    for (const bool reference : {true, false}) {
      SCOPED_TRACE(std::string(model) + (reference ? " ref" : " fast"));
      TinyCase test{.model_type = model, .dropout = 0.0};
      const TinyBatch batch = testing::tiny_batch(test, kLengths, 11);
      const std::vector<double> exact = gradient_of(test, DType::kF64, true, batch);
      test.activations = DType::kBF16;
      const std::vector<double> mixed = gradient_of(test, DType::kF32, reference, batch);
      double difference = 0;
      double norm = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        difference += (exact[i] - mixed[i]) * (exact[i] - mixed[i]);
        norm += exact[i] * exact[i];
      }
      EXPECT_LE(std::sqrt(difference), 6 * 0x1p-8 * std::sqrt(norm));
      EXPECT_GE(std::sqrt(difference), 0x1p-14 * std::sqrt(norm)) << "nothing was rounded to bf16";
    }
  }
}

}  // namespace
}  // namespace plimsoll
