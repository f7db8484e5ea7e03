// Tests the configurations of the Llama family: defaults, both forms of rotary embeddings, attention windows, error messages, and writing
// followed by reading.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "models/config.h"
#include "models/model.h"

namespace plimsoll {
namespace {
// Returns the text of a configuration. For Mistral it sets the number of heads of keys, because the default, 8,
// does not divide the four heads of these configurations.
std::string llama_config(const std::string& more, const std::string& model_type = "llama") {
  const std::string kv_heads = model_type == "mistral" ? R"(, "num_key_value_heads": 2)" : "";
  return R"({"model_type": ")" + model_type +
         R"(", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "max_position_embeddings": 64)" +
         kv_heads + (more.empty() ? "" : ", " + more) + "}";
}
ModelConfig read_llama(const std::string& more, const std::string& model_type = "llama") {
  return parse_model_config(llama_config(more, model_type), "config.json");
}
void expect_refused(const std::string& more, ErrorCode code, std::string_view part,
                    const std::string& model_type = "llama") {
  try {
    read_llama(more, model_type);
    ADD_FAILURE() << more << " was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

TEST(LlamaConfig, TakesTheDefaultsOfTransformers) {
  const ModelConfig llama = parse_model_config(R"({"model_type": "llama"})", "config.json");
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.num_key_value_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.rope, RopeParameters{});
  EXPECT_EQ(llama.hidden_act, "silu");
  EXPECT_EQ(llama.sliding_window, 0);
  const ModelConfig mistral = parse_model_config(R"({"model_type": "mistral"})", "config.json");
  EXPECT_EQ(mistral.num_key_value_heads, 8);
  EXPECT_EQ(mistral.window_of(0), 4096);
  const ModelConfig qwen2 = parse_model_config(R"({"model_type": "qwen2"})", "config.json");
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_EQ(qwen2.window_of(31), 0);
  const ModelConfig qwen3 =
      parse_model_config(R"({"model_type": "qwen3", "hidden_size": 2560})", "config.json");
  EXPECT_TRUE(qwen3.head_norms);
  EXPECT_EQ(qwen3.head_width(), 128);
}

TEST(LlamaConfig, ReadsBothFormsOfRotaryEmbeddings) {
  const ModelConfig v5 = read_llama(
      R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": 16})");
  const ModelConfig v4 = read_llama(
      R"("rope_theta": 500000.0, "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": 16})");
  EXPECT_EQ(v5.rope, v4.rope);
  EXPECT_EQ(v5.rope.type, RopeType::kLlama3);
  EXPECT_EQ(v5.rope.theta, 5e5);
  // rope_scaling takes precedence over rope_parameters, and the rope_theta inside rope_scaling over the rope_theta at the top level.
  EXPECT_EQ(read_llama(
                R"("rope_theta": 5.0, "rope_scaling": {"rope_type": "linear", "factor": 2, "rope_theta": 7.0},
                          "rope_parameters": {"rope_type": "default", "rope_theta": 9.0})")
                .rope,
            (RopeParameters{.type = RopeType::kLinear, .theta = 7.0, .factor = 2.0}));
  EXPECT_EQ(read_llama(R"("rope_theta": 5.0, "rope_scaling": null)").rope.theta, 5.0);
  // If a configuration does not state all parameters of a rotary embedding, some types derive the missing ones from other keys.
  const RopeParameters dynamic =
      read_llama(R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0})").rope;
  EXPECT_EQ(dynamic.original, 64.0);
  const RopeParameters yarn =
      read_llama(R"("rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 16})").rope;
  EXPECT_EQ(yarn.factor, 4.0);
  EXPECT_NEAR(yarn.attention_factor, 1.13862944, 1e-8);
  const ModelConfig longrope = read_llama(
      R"("original_max_position_embeddings": 8, "rope_scaling": {"rope_type": "longrope",
         "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4]})");
  EXPECT_EQ(longrope.rope.original, 8.0);
  EXPECT_EQ(longrope.rope.factor, 8.0);
  EXPECT_NEAR(longrope.rope.attention_factor, std::sqrt(2.0), 1e-12);
}

// A written configuration contains rope_theta twice: in the form of transformers 4 and in that of transformers 5.
TEST(LlamaConfig, OverridesReachRotaryEmbeddingsInBothForms) {
  for (const char* name : {"TinyLlama-1.1B-Chat-v1.0", "Llama-3.2-1B", "Qwen3-0.6B"}) {
    ModelConfig config = find_preset(name).value();
    const RopeParameters before = config.rope;
    apply_config_overrides(config, "rope_theta=123.0");
    EXPECT_EQ(config.rope.theta, 123.0) << name;
    config.rope.theta = before.theta;
    EXPECT_EQ(config.rope, before) << name << ": nothing else changes";
  }
}

TEST(LlamaConfig, RefusesEmbeddingsThatItDoesNotComputeByFileAndKey) {
  expect_refused(R"("rope_scaling": {"rope_type": "su"})", ErrorCode::kUsage,
                 "config.json: rope_scaling: rope_type is 'su'; this version computes default, linear");
  expect_refused(R"("rope_parameters": {"type": "mrope", "factor": 2.0})", ErrorCode::kUsage,
                 "type is 'mrope'");
  expect_refused(R"("rope_parameters": {"rope_type": "default", "mrope_section": [1]})", ErrorCode::kUsage,
                 "config.json: rope_parameters: 'mrope_section' is not a key");
  expect_refused(R"("partial_rotary_factor": 0.5)", ErrorCode::kUsage, "partial_rotary_factor is 0.5");
  expect_refused(R"("rope_scaling": {"rope_type": "linear"})", ErrorCode::kBadData, "needs 'factor'");
  expect_refused(R"("rope_scaling": {"rope_type": "llama3", "factor": 2.0})", ErrorCode::kBadData,
                 "needs 'low_freq_factor'");
  expect_refused(R"("rope_scaling": {"rope_type": "linear", "factor": "2"})", ErrorCode::kBadData,
                 "config.json: rope_scaling: 'factor' must be a number");
  expect_refused(R"("rope_scaling": {"rope_type": "linear", "factor": 0})", ErrorCode::kBadData,
                 "factor is 0");
  expect_refused(
      R"("rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [1, 2, 3, 4]})",
      ErrorCode::kBadData,
      "short_factor must have one number per pair of elements of a head, but has 1 for 4 pairs");
  expect_refused(R"("rope_scaling": [1])", ErrorCode::kBadData, "'rope_scaling' must be an object");
  expect_refused(R"("rope_theta": -1.0)", ErrorCode::kBadData, "rope_theta is -1");
  expect_refused(R"("head_dim": 7)", ErrorCode::kBadData, "heads have 7 elements");
}

TEST(LlamaConfig, RefusesSettingsThatContradictEachOther) {
  expect_refused(R"("num_key_value_heads": 3)", ErrorCode::kBadData,
                 "num_attention_heads 4 is not a multiple of num_key_value_heads 3");
  expect_refused(R"("num_key_value_heads": -4)", ErrorCode::kBadData, "num_key_value_heads is -4");
  expect_refused(R"("num_key_value_heads": 0)", ErrorCode::kBadData, "num_key_value_heads is 0");
  expect_refused(R"("attention_bias": 1)", ErrorCode::kBadData, "'attention_bias' must be true or false");
  expect_refused(R"("sliding_window": 0)", ErrorCode::kBadData, "sliding_window is 0", "mistral");
  expect_refused(R"("use_sliding_window": true, "layer_types": ["full_attention"])", ErrorCode::kBadData,
                 "layer_types has 1 entries, and num_hidden_layers is 2", "qwen2");
  expect_refused(R"("layer_types": ["full_attention", "linear_attention"])", ErrorCode::kUsage,
                 "layer_types[1] is \"linear_attention\"", "qwen3");
  expect_refused(R"("layer_types": ["full_attention", "sliding_attention"])", ErrorCode::kBadData,
                 "use_sliding_window is false", "qwen2");
}

TEST(LlamaConfig, ReadsWindowsByLayer) {
  const ModelConfig by_number =
      read_llama(R"("use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1)", "qwen2");
  EXPECT_EQ(by_number.window_of(0), 0);
  EXPECT_EQ(by_number.window_of(1), 5);
  const ModelConfig by_list = read_llama(
      R"("use_sliding_window": true, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"])",
      "qwen3");
  EXPECT_EQ(by_list.window_of(0), 5);
  EXPECT_EQ(by_list.window_of(1), 0);
  EXPECT_EQ(read_llama(R"("sliding_window": null)", "mistral").window_of(1), 0);
  // No layer has the window, because use_sliding_window is false.
  EXPECT_EQ(read_llama(R"("sliding_window": 5)", "qwen2").window_of(1), 0);
}

TEST(LlamaConfig, ReadsWhatItWrites) {
  const std::pair<const char*, const char*> cases[] = {
      {"llama", R"("attention_bias": true, "mlp_bias": true, "head_dim": 10, "num_key_value_heads": 2,
                   "tie_word_embeddings": true)"},
      {"llama", R"("rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 16, "truncate": false})"},
      {"llama", R"("rope_parameters": {"rope_type": "longrope", "short_factor": [1, 1, 1, 1],
                   "long_factor": [1, 2, 3, 4], "original_max_position_embeddings": 8, "rope_theta": 50.0})"},
      {"mistral", R"("sliding_window": null, "rope_scaling": {"type": "dynamic", "factor": 2.0})"},
      {"mistral", R"("sliding_window": 7)"},
      {"qwen2", R"("use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1)"},
      {"qwen3", R"("attention_bias": true, "layer_types": ["full_attention", "full_attention"])"}};
  for (const auto& [model_type, more] : cases) {
    ModelConfig config = read_llama(more, model_type);
    const std::string written = model_config_json(config);
    ModelConfig again = parse_model_config(written, "config.json");
    config.source = again.source = {};
    config.id2label = again.id2label = {};
    config.problem_type = again.problem_type = {};
    EXPECT_EQ(config, again) << written;
    const nlohmann::json json = nlohmann::json::parse(written);
    EXPECT_EQ(json["rope_theta"], json["rope_parameters"]["rope_theta"]);
  }
}

// The numbers of parameters that the Hugging Face Hub states for these models. They include the head for language modelling, unless it is
// tied to the embeddings.
TEST(LlamaConfig, PresetsHaveTheParametersOfTheirFiles) {
  const std::pair<const char*, int64_t> presets[] = {
      {"Llama-3.2-1B", 1235814400},    {"Llama-3.2-3B", 3212749824},
      {"Llama-3.1-8B", 8030261248},    {"SmolLM2-135M", 134515008},
      {"SmolLM2-360M", 361821120},     {"SmolLM2-1.7B", 1711376384},
      {"Qwen2.5-0.5B", 494032768},     {"Qwen2.5-1.5B", 1543714304},
      {"Qwen2.5-3B", 3085938688},      {"Qwen2.5-7B", 7615616512},
      {"Qwen3-0.6B", 596049920},       {"Qwen3-1.7B", 1720574976},
      {"Qwen3-4B", 4022468096},        {"Qwen3-8B", 8190735360},
      {"Mistral-7B-v0.3", 7248023552}, {"TinyLlama-1.1B-Chat-v1.0", 1100048384}};
  for (const auto& [name, parameters] : presets) {
    const ModelConfig config = *find_preset(name);
    int64_t total = config.tie_word_embeddings ? 0 : config.vocab_size * config.hidden_size;
    for (const WeightSpec& spec : model_weights(config)) {
      if (spec.name != "score.weight") total += spec.elements();
    }
    EXPECT_EQ(total, parameters) << name;
  }
}

}  // namespace
}  // namespace plimsoll
