// Tiny models for tests of whole steps. The list covers every kind of model, loss, optimizer, precision and
// adapter. Contains values only.
#pragma once

#include <string>
#include <vector>

#include "tests/spine/tiny_run.h"

namespace plimsoll::testing {

inline std::vector<TinyCase> step_cases() {
  std::vector<TinyCase> cases;
  for (const char* model : {"bert", "distilbert"}) {
    for (const int64_t accumulation : {1, 3}) {
      cases.push_back({.model_type = model, .accumulation = accumulation});
      cases.push_back({.model_type = model,
                       .accumulation = accumulation,
                       .optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .momentum = 0.9}});
    }
  }
  cases.push_back({.optimizer = {.kind = OptimizerKind::kLion, .weight_decay = 0.01}});
  cases.push_back({.accumulation = 2, .optimizer = {.kind = OptimizerKind::kAdagrad, .weight_decay = 0.01}});
  cases.push_back({.optimizer = {.kind = OptimizerKind::kAdafactor, .weight_decay = 0.01}});
  cases.push_back({.accumulation = 2,
                   .optimizer = {.kind = OptimizerKind::kAdafactor,
                                 .weight_decay = 0.01,
                                 .adafactor = {.beta1 = 0.9, .scale_parameter = true}},
                   .activations = DType::kBF16});
  // Cases with 8-bit optimizer states. Only tensors of at least 4096 elements have such states, so the model
  // is wide enough for this: its query, key and value matrices have 4096 elements each.
  cases.push_back(
      {.optimizer = {.kind = OptimizerKind::kAdamW8Bit, .weight_decay = 0.01}, .hidden = 64, .layers = 1});
  cases.push_back(
      {.accumulation = 2, .optimizer = {.kind = OptimizerKind::kLion8Bit}, .hidden = 64, .layers = 1});
  cases.push_back({.optimizer = {.kind = OptimizerKind::kSgd8Bit, .weight_decay = 0.01, .momentum = 0.9},
                   .hidden = 64,
                   .layers = 1});
  cases.push_back({.accumulation = 2,
                   .optimizer = {.kind = OptimizerKind::kAdagrad8Bit, .weight_decay = 0.01},
                   .hidden = 64,
                   .layers = 1});
  cases.push_back({.problem_type = ProblemType::kRegression});
  cases.push_back({.problem_type = ProblemType::kMultiLabel, .accumulation = 2});
  cases.push_back({.problem_type = ProblemType::kTokenClassification, .accumulation = 2});
  for (const int64_t accumulation : {1, 2}) {
    TinyCase language{.model_type = "gpt2",
                      .problem_type = ProblemType::kCausalLm,
                      .accumulation = accumulation,
                      .activations = accumulation == 1 ? std::nullopt : std::optional(DType::kBF16)};
    cases.push_back(language);
    language.chunked_loss = ChunkedLoss::kAlways;
    cases.push_back(language);
  }
  for (const int64_t accumulation : {1, 2}) {
    TinyCase masked{.model_type = accumulation == 1 ? "electra" : "bert",
                    .problem_type = ProblemType::kMaskedLm,
                    .accumulation = accumulation,
                    .activations = accumulation == 1 ? std::nullopt : std::optional(DType::kBF16)};
    cases.push_back(masked);
    masked.chunked_loss = ChunkedLoss::kAlways;
    cases.push_back(masked);
    masked.optimizer = {.kind = OptimizerKind::kAdamW8Bit, .weight_decay = 0.01};
    masked.hidden = 64;
    masked.layers = 1;
    cases.push_back(masked);
    masked.lora = LoraConfig{.r = 3, .alpha = 5.0, .dropout = 0.1};
    cases.push_back(masked);
  }
  // Cases of ModernBERT with local and global attention layers, norms without bias, a gated feed-forward layer,
  // and mean pooling.
  for (const int64_t accumulation : {1, 2}) {
    TinyCase local{.model_type = "modernbert", .accumulation = accumulation};
    if (accumulation == 2) local.activations = DType::kBF16;
    local.adjust = [](ModelConfig& config) {
      config.global_attn_every_n_layers = 2;
      config.local_attention = 4;
      config.local_rope.theta = 50.0;
      config.classifier_pooling = "mean";
    };
    cases.push_back(local);
    local.optimizer = {.kind = OptimizerKind::kAdamW8Bit, .weight_decay = 0.01};
    local.hidden = 64;
    cases.push_back(local);
    local.lora = LoraConfig{.r = 3, .alpha = 5.0, .dropout = 0.1};
    local.lora->target_modules = {"Wqkv", "Wo"};
    cases.push_back(local);
  }
  cases.push_back({.activations = DType::kBF16});
  for (const int64_t accumulation : {1, 2}) {
    cases.push_back({.accumulation = accumulation,
                     .label_smoothing = 0.1,
                     .activations = accumulation == 1 ? std::nullopt : std::optional(DType::kBF16),
                     .chunked_loss = ChunkedLoss::kAlways});
  }
  for (const std::vector<std::string>& freeze :
       {std::vector<std::string>{"bert.embeddings.*", "bert.encoder.layer.0.*"}, {"*.weight"}}) {
    TinyCase frozen{.accumulation = freeze.size() == 1 ? 2 : 1};
    frozen.freeze = freeze;
    cases.push_back(frozen);
  }
  const auto add_lora = [&cases](TinyCase test, const LoraConfig& lora) {
    test.lora = lora;
    cases.push_back(test);
  };
  LoraConfig everywhere;
  everywhere.target_modules = {"all-linear"};
  add_lora({.accumulation = 2}, LoraConfig{.r = 3, .alpha = 5.0, .dropout = 0.1});
  add_lora({.model_type = "distilbert"}, everywhere);
  add_lora({}, LoraConfig{.base_weights = BaseWeights::kNf4, .double_quant = true});
  add_lora({.accumulation = 2}, LoraConfig{.base_weights = BaseWeights::kInt8});
  add_lora({.activations = DType::kBF16}, LoraConfig{.base_weights = BaseWeights::kFp4});
  add_lora({.activations = DType::kBF16}, LoraConfig{.r = 4, .dropout = 0.1});
  cases.push_back({.model_type = "distilbert", .accumulation = 2, .activations = DType::kBF16});
  return cases;
}

}  // namespace plimsoll::testing
