// Tests ModernBERT's configurations: defaults, both forms of layers and rotary embeddings, error messages, writing followed by reading, and
// weights.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "models/config.h"
#include "models/model.h"

namespace plimsoll {
namespace {

ModelConfig read_modernbert(const std::string& more) {
  return parse_model_config(
      R"({"model_type": "modernbert", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 4, "num_attention_heads": 4, "pad_token_id": 3)" +
          (more.empty() ? "" : ", " + more) + "}",
      "config.json");
}

void expect_refused_modernbert(const std::string& more, ErrorCode code, std::string_view part) {
  try {
    read_modernbert(more);
    ADD_FAILURE() << more << " was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

std::vector<bool> local_layers(const ModelConfig& config) {
  std::vector<bool> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers.push_back(config.is_local(i, config.slides));
  return layers;
}

TEST(ModernBertConfig, TakesTheDefaultsOfTransformers) {
  const ModelConfig config = parse_model_config(R"({"model_type": "modernbert"})", "config.json");
  EXPECT_EQ(config.vocab_size, 50368);
  EXPECT_EQ(config.num_hidden_layers, 22);
  EXPECT_EQ(config.intermediate_size, 1152);
  EXPECT_EQ(config.pad_token_id, 50283);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_EQ(config.rope.theta, 160000.0);
  EXPECT_EQ(config.local_rope.theta, 10000.0);
  EXPECT_EQ(config.local_attention, 128);
  EXPECT_EQ(config.classifier_pooling, "cls");
  EXPECT_EQ(config.initializer_cutoff_factor, 2.0);
  EXPECT_FALSE(config.norm_bias || config.qkv_bias || config.mlp_bias || config.classifier_bias);
  EXPECT_EQ(config.hidden_dropout_prob, 0.0);
  EXPECT_FALSE(config.is_local(0, config.slides));
  EXPECT_TRUE(config.is_local(2, config.slides));
  EXPECT_FALSE(config.is_local(3, config.slides));
}

TEST(ModernBertConfig, ReadsBothFormsOfLayers) {
  EXPECT_EQ(local_layers(read_modernbert(R"("global_attn_every_n_layers": 2)")),
            (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(local_layers(read_modernbert(R"("global_attn_every_n_layers": 1)")), std::vector<bool>(4, false));
  const ModelConfig listed = read_modernbert(
      R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
         "global_attn_every_n_layers": 2)");
  EXPECT_EQ(local_layers(listed), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(listed.global_attn_every_n_layers, 3);
  EXPECT_TRUE(listed.slides.empty());
  const ModelConfig irregular = read_modernbert(
      R"("layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"])");
  EXPECT_EQ(local_layers(irregular), (std::vector<bool>{true, false, false, true}));
}

TEST(ModernBertConfig, ReadsBothFormsOfRotaryEmbeddings) {
  const ModelConfig v4 = read_modernbert(R"("global_rope_theta": 500.0, "local_rope_theta": 50.0)");
  const ModelConfig v5 = read_modernbert(
      R"("rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}})");
  EXPECT_EQ(v4.rope, v5.rope);
  EXPECT_EQ(v4.local_rope, v5.local_rope);
  EXPECT_EQ(v4.rope.theta, 500.0);
  EXPECT_EQ(v4.local_rope.theta, 50.0);
  // If rope_parameters does not contain the base (rope_theta), the base is the value of global_rope_theta or local_rope_theta, the keys
  // that transformers 4 writes. A kind of attention whose object in rope_parameters is null has the rope_type "default".
  const ModelConfig mixed = read_modernbert(
      R"("global_rope_theta": 700.0, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0},
         "sliding_attention": null})");
  EXPECT_EQ(mixed.rope.theta, 700.0);
  EXPECT_EQ(mixed.rope.type, RopeType::kLinear);
  EXPECT_EQ(mixed.local_rope.theta, 10000.0);
  EXPECT_EQ(mixed.local_rope.type, RopeType::kDefault);
  EXPECT_EQ(read_modernbert(R"("global_rope_theta": 700.0, "local_rope_theta": null)").local_rope.theta,
            700.0);
  const ModelConfig scaled = read_modernbert(R"("rope_scaling": {"type": "linear", "factor": 4.0})");
  EXPECT_EQ(scaled.rope.factor, 4.0);
  EXPECT_EQ(scaled.local_rope.factor, 4.0);
  EXPECT_EQ(scaled.local_rope.theta, 10000.0);
}

TEST(ModernBertConfig, RefusesWhatItDoesNotCompute) {
  using enum ErrorCode;
  expect_refused_modernbert(R"("classifier_pooling": "max")", kUsage, "'cls' and 'mean'");
  expect_refused_modernbert(R"("local_attention": -2)", kBadData, "local_attention is -2");
  expect_refused_modernbert(R"("global_attn_every_n_layers": 0)", kBadData,
                            "global_attn_every_n_layers is 0");
  expect_refused_modernbert(R"("initializer_cutoff_factor": 0.0)", kBadData,
                            "initializer_cutoff_factor is 0");
  expect_refused_modernbert(R"("layer_types": ["full_attention"])", kBadData, "1 entries");
  expect_refused_modernbert(R"("layer_types": "full_attention")", kBadData, "a list of strings");
  expect_refused_modernbert(
      R"("layer_types": ["full_attention", "chunked_attention", "full_attention", "full_attention"])", kUsage,
      "layer_types[1] is \"chunked_attention\"");
  expect_refused_modernbert(R"("rope_parameters": {"rope_type": "default"})", kUsage, "the key 'rope_type'");
  expect_refused_modernbert(R"("rope_parameters": {"full_attention": 3})", kBadData, "must be an object");
  expect_refused_modernbert(R"("rope_parameters": {"full_attention": {"rope_type": "linear"}})", kBadData,
                            "rope_parameters.full_attention: the type 'linear' needs 'factor'");
  expect_refused_modernbert(R"("local_rope_theta": 0.5)", kBadData, "rope_theta is 0.5");
  expect_refused_modernbert(R"("hidden_size": 36)", kBadData, "heads have 9 elements");
  expect_refused_modernbert(R"("num_attention_heads": 5)", kBadData, "not a multiple");
  expect_refused_modernbert(R"("classifier_activation": "mish")", kUsage, "the activation is 'mish'");
  expect_refused_modernbert(R"("hidden_activation": "mish")", kUsage, "the activation is 'mish'");
  expect_refused_modernbert(R"("norm_bias": 1)", kBadData, "true or false");
}

TEST(ModernBertConfig, RoundTripsKeepTheModel) {
  for (const char* more :
       {R"("norm_bias": true)", R"("attention_bias": true, "mlp_bias": true, "classifier_bias": true)",
        R"("classifier_pooling": "mean", "classifier_activation": "silu", "hidden_activation": "relu")",
        R"("global_attn_every_n_layers": 2, "local_attention": 6)", R"("initializer_cutoff_factor": null)",
        R"("layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"])",
        R"("rope_scaling": {"rope_type": "linear", "factor": 4.0}, "global_rope_theta": 300.0)",
        R"("rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 40.0,
           "original_max_position_embeddings": 16}, "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}})"}) {
    SCOPED_TRACE(more);
    ModelConfig config = read_modernbert(more);
    ModelConfig again = parse_model_config(model_config_json(config), "config.json");
    config.source = again.source = {};
    EXPECT_EQ(model_config_json(config), model_config_json(again));
    EXPECT_EQ(config.rope, again.rope);
    EXPECT_EQ(config.local_rope, again.local_rope);
    EXPECT_EQ(local_layers(config), local_layers(again));
    EXPECT_EQ(config.initializer_cutoff_factor, again.initializer_cutoff_factor);
    EXPECT_EQ(config.norm_bias, again.norm_bias);
    EXPECT_EQ(config.qkv_bias, again.qkv_bias);
    EXPECT_EQ(config.classifier_pooling, again.classifier_pooling);
  }
}

// A config.json may describe layers and rotary embeddings by simple keys (such as global_rope_theta), or by the list layer_types and the
// object rope_parameters. Overrides of simple keys must also apply to a configuration that has the list and the object.
TEST(ModernBertConfig, OverridesApplyToBothForms) {
  ModelConfig config = read_modernbert(
      R"("layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
         "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}})");
  apply_config_overrides(config, "num_hidden_layers=6,global_rope_theta=900.0,classifier_pooling=mean");
  EXPECT_EQ(local_layers(config), (std::vector<bool>{false, true, false, true, false, true}));
  EXPECT_EQ(config.rope.theta, 900.0);
  EXPECT_EQ(config.local_rope.theta, 50.0);
  EXPECT_EQ(config.classifier_pooling, "mean");
}

// The Hugging Face Hub states 149 and 395 million parameters, which include the head for masked language modelling.
TEST(ModernBertConfig, PresetsAreThoseOfTheHub) {
  for (const auto& [name, layers, millions] :
       {std::tuple{"answerdotai/ModernBERT-base", 22, 149.6}, {"ModernBERT-large", 28, 395.8}}) {
    const std::optional<ModelConfig> config = find_preset(name);
    ASSERT_TRUE(config.has_value()) << name;
    EXPECT_EQ(config->model_type, "modernbert");
    EXPECT_EQ(config->num_hidden_layers, layers);
    EXPECT_EQ(max_sequence_length(*config), 8192);
    EXPECT_EQ(config->classifier_pooling, "mean");
    EXPECT_EQ(config->rope.theta, 160000.0);
    const std::vector<WeightSpec> weights = model_weights(*config);
    const auto elements =
        std::accumulate(weights.begin(), weights.end(), int64_t{0},
                        [](int64_t sum, const WeightSpec& spec) { return sum + spec.elements(); });
    EXPECT_NEAR(static_cast<double>(elements) * 1e-6, millions, 0.1) << name;
  }
}

TEST(ModernBertConfig, WeightsHaveBiasesAndDistributionsOfTransformers) {
  const auto names = [](const ModelConfig& config) {
    std::vector<std::string> biases;
    for (const WeightSpec& spec : model_weights(config)) {
      EXPECT_NE(spec.name, "layers.0.attn_norm.weight");
      if (spec.name.ends_with(".bias")) biases.push_back(spec.name);
    }
    return biases;
  };
  EXPECT_EQ(names(read_modernbert("")), std::vector<std::string>{"classifier.bias"});
  EXPECT_EQ(names(read_modernbert(R"("classifier_bias": true)")),
            (std::vector<std::string>{"head.dense.bias", "classifier.bias"}));
  EXPECT_EQ(names(read_modernbert(R"("norm_bias": true)")).size(), 1 + 1 + 3 + 4 + 1 + 1);
  EXPECT_EQ(names(read_modernbert(R"("attention_bias": true)")).size(), 1 + 8);
  EXPECT_EQ(names(read_modernbert(R"("mlp_bias": true)")).size(), 1 + 8);
  const ModelConfig config = read_modernbert(R"("initializer_cutoff_factor": null)");
  for (const WeightSpec& spec : model_weights(config)) {
    if (spec.initializer != Initializer::kNormal) continue;
    EXPECT_EQ(spec.cutoff, 3.0) << spec.name;
    EXPECT_EQ(spec.zero_row, -1) << spec.name;
    const bool adds_to_residual = spec.name.ends_with(".Wo.weight") || spec.name == "head.dense.weight";
    EXPECT_DOUBLE_EQ(spec.normal_scale, adds_to_residual ? 1.0 / std::sqrt(8.0) : 1.0) << spec.name;
    EXPECT_EQ(spec.deviation.has_value(), spec.name == "classifier.weight") << spec.name;
  }
}

}  // namespace
}  // namespace plimsoll
