// Tests that the readers of config.json and --config_overrides report errors that fuzzing found, and that presets are the same after
// writing and reading. Whole files are tested in tests/bad_input and tests/parity.
#include "models/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "base/activation_names.h"
#include "models/architecture.h"

namespace plimsoll {
namespace {

TEST(ModelConfig, RefusesANumberThatNoDoubleHolds) {
  try {
    parse_model_config(R"({"model_type": "bert", "layer_norm_eps": 1e999})", "config.json");
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    EXPECT_TRUE(
        std::string(error.what())
            .starts_with("config.json: line 1, column 46: expected a number of at most 1.8e308, got '1e999'"))
        << error.what();
  }
}

TEST(ModelConfig, RefusesOverridesThatAreNotUtf8) {
  ModelConfig config = *find_preset("bert-base-uncased");
  try {
    apply_config_overrides(config, "hidden_act=\xff");
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_TRUE(std::string(error.what()).starts_with("--config_overrides: a value is not UTF-8"))
        << error.what();
  }
}

TEST(ModelConfig, ReadsThePaddingToken) {
  const auto read = [](const std::string& value) {
    return parse_model_config(R"({"model_type": "bert", "vocab_size": 10, "pad_token_id": )" + value + "}",
                              "config.json")
        .pad_token_id;
  };
  EXPECT_EQ(read("3"), 3);
  EXPECT_EQ(read("null"), -1);
  try {
    read("10");
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("config.json: pad_token_id is 10, it must be null or between 0 and 9"))
        << error.what();
  }
}

// Returns the message of the error that reading this configuration raises.
std::string refusal_of(const std::string& json, ErrorCode code) {
  try {
    parse_model_config(json, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(ModelConfig, ReadsEveryActivationOfEveryArchitecture) {
  for (const Architecture* architecture : architectures()) {
    std::string key;
    for (const ConfigKey& candidate : architecture->config_keys) {
      const auto* field = std::get_if<std::string ModelConfig::*>(&candidate.field);
      if (field != nullptr && *field == &ModelConfig::hidden_act) key = candidate.name;
    }
    for (const ActivationName& row : kActivationNames) {
      const ModelConfig config =
          parse_model_config(R"({"model_type": ")" + std::string(architecture->model_type) + R"(", ")" + key +
                                 R"(": ")" + std::string(row.name) + R"("})",
                             "config.json");
      EXPECT_EQ(config.hidden_act, row.name) << architecture->model_type;
    }
  }
  const std::string refusal =
      refusal_of(R"({"model_type": "bert", "hidden_act": "mish"})", ErrorCode::kUsage);
  EXPECT_NE(refusal.find("'mish'"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("gelu_new"), std::string::npos) << refusal;
}

TEST(ModelConfig, ListsTheArchitecturesWhenItRefusesOne) {
  const std::string refusal = refusal_of(R"({"model_type": "deberta"})", ErrorCode::kUsage);
  for (const Architecture* architecture : architectures())
    EXPECT_NE(refusal.find(architecture->model_type), std::string::npos) << refusal;
}

TEST(ModelConfig, ReadsElectrasWidthOfEmbeddings) {
  const std::string start = R"({"model_type": "electra", "hidden_size": 32, "embedding_size": )";
  EXPECT_EQ(parse_model_config(start + "16}", "config.json").embedding_width(), 16);
  EXPECT_EQ(parse_model_config(R"({"model_type": "electra"})", "config.json").embedding_width(), 128);
  EXPECT_NE(refusal_of(start + "0}", ErrorCode::kBadData).find("embedding_size is 0"), std::string::npos);
}

TEST(ModelConfig, KeepsEveryPresetThroughItsFile) {
  ASSERT_GT(preset_names().size(), 4u);
  for (const std::string& name : preset_names()) {
    const ModelConfig preset = *find_preset(name);
    const std::string written = model_config_json(preset);
    EXPECT_EQ(model_config_json(parse_model_config(written, name)), written);
  }
}

// Expects the labels that transformers 5.24 has after BertConfig.from_dict(). If the keys do not start from 0, the labels
// are in the order of their keys.
TEST(ModelConfig, ReadsLabelMapsOfAllKinds) {
  struct Labels {
    const char* json;
    int64_t count;
    std::vector<std::string> names;
  };
  const std::vector<Labels> cases{
      {R"("id2label": {"0": 0, "1": 1})", 2, {"0", "1"}},
      {R"("id2label": {"0": false, "1": true})", 2, {"False", "True"}},
      {R"("id2label": {"0": 1.5, "1": 2.0, "2": 1e20})", 3, {"1.5", "2.0", "1e+20"}},
      {R"("id2label": {"0": null, "1": "x"})", 2, {"None", "x"}},
      {R"("id2label": {"0": -1, "1": 18446744073709551615})", 2, {"-1", "18446744073709551615"}},
      {R"("id2label": {"1": "a", "2": "b"})", 2, {"a", "b"}},
      {R"("id2label": {"10": "c", "0": "a", "5": "b"})", 3, {"a", "b", "c"}},
      {R"("id2label": {"-1": "a", "0": "b"})", 2, {"a", "b"}},
      {R"("id2label": {"00": "a", " 1 ": "b", "+2": "c", "1_0": "d"})", 4, {"a", "b", "c", "d"}},
      {R"("id2label": {"0": "a", "1": "a"})", 2, {"a", "a"}},
      {R"("num_labels": 3, "id2label": {"0": "neg", "1": "pos"})", 3, {}},
      {R"("num_labels": 2, "id2label": {"0": "a", "1": "b", "2": "c"})", 2, {}},
      {R"("num_labels": 2, "id2label": {"1": "a", "2": "b"})", 2, {"a", "b"}},
      {R"("num_labels": 4, "id2label": {})", 4, {}},
      {R"("_num_labels": 4, "id2label": {"0": "a", "1": "b"})", 2, {"a", "b"}},
      {R"("num_labels": null, "id2label": {"0": "a", "1": "b", "2": "c"})", 3, {"a", "b", "c"}},
      {R"("num_labels": 4)", 4, {}},
      {R"("label2id": {"a": 0, "b": 1, "c": 2})", 2, {}},
      {R"("id2label": null)", 2, {}},
  };
  for (const Labels& item : cases) {
    const ModelConfig config =
        parse_model_config(R"({"model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, )" +
                               std::string(item.json) + "}",
                           "x");
    EXPECT_EQ(config.num_labels, item.count) << item.json;
    EXPECT_EQ(config.id2label, item.names) << item.json;
    EXPECT_EQ(parse_model_config(model_config_json(config), "x").num_labels, item.count) << item.json;
  }
}

TEST(ModelConfig, RefusesLabelMapsThatHaveNoMeaning) {
  for (const char* json : {R"({"a": "x"})", R"({"0.0": "x"})", R"({"": "x"})", R"({"1__0": "x"})",
                           R"({"1": "b", "01": "c"})", R"({"0": ["x"]})", R"({"0": {}})",
                           R"({"99999999999999999999": "x"})", R"(["x"])", R"("x")", "3", "{}"}) {
    EXPECT_THROW(parse_model_config(std::string(R"({"model_type": "bert", "id2label": )") + json + "}", "x"),
                 Error)
        << json;
  }
}

TEST(Gpt2Config, TakesTheDefaultsOfTransformers) {
  const ModelConfig config = parse_model_config(R"({"model_type": "gpt2"})", "config.json");
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.intermediate_size, 4 * 768);
  EXPECT_EQ(config.max_position_embeddings, 1024);
  EXPECT_EQ(config.vocab_size, 50257);
  EXPECT_EQ(config.hidden_act, "gelu_new");
  EXPECT_EQ(config.pad_token_id, -1);
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
}

TEST(Gpt2Config, FollowsTheWidthUnlessTheFeedForwardLayerHasItsOwn) {
  const std::string start = R"({"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_inner": )";
  EXPECT_EQ(parse_model_config(start + "null}", "config.json").intermediate_size, 128);
  EXPECT_EQ(parse_model_config(start + "48}", "config.json").intermediate_size, 48);
}

TEST(Gpt2Config, RefusesForwardPassesThatItDoesNotCompute) {
  for (const char* key :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    const std::string text = R"({"model_type": "gpt2", ")" + std::string(key) + R"(": true})";
    try {
      parse_model_config(text, "config.json");
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

TEST(Gpt2Config, ReadsWhatItWrites) {
  const ModelConfig config = parse_model_config(
      R"({"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_inner": 48, "embd_pdrop": 0.25, "resid_pdrop": 0.125})",
      "config.json");
  ModelConfig again = parse_model_config(model_config_json(config), "config.json");
  EXPECT_EQ(again.intermediate_size, 48);
  EXPECT_EQ(again.embedding_dropout_prob, 0.25);
  EXPECT_EQ(again.hidden_dropout_prob, 0.125);
}

// transformers refuses "embd_pdrop": null, so a written configuration must state a number.
TEST(Gpt2Config, StatesTheDropoutOfTheEmbeddings) {
  EXPECT_NE(model_config_json(*find_preset("gpt2")).find("\"embd_pdrop\": 0.1,"), std::string::npos);
  const ModelConfig config =
      parse_model_config(R"({"model_type": "gpt2", "resid_pdrop": 0.25})", "config.json");
  EXPECT_NE(model_config_json(config).find("\"embd_pdrop\": 0.25,"), std::string::npos);
  EXPECT_EQ(parse_model_config(model_config_json(config), "config.json").embedding_dropout_prob, 0.25);
}

// The RoBERTa models on the Hugging Face Hub state 514 positions and the padding token 1, which leaves 512 positions for tokens.
TEST(ModelConfig, RobertasPositionsStartAfterThePaddingToken) {
  for (const char* type : {"roberta", "xlm-roberta", "camembert"}) {
    const std::string start = fmt::format(R"({{"model_type": "{}", )", type);
    const ModelConfig config =
        parse_model_config(start + R"("max_position_embeddings": 514})", "config.json");
    EXPECT_EQ(config.pad_token_id, 1);
    EXPECT_EQ(position_padding_id(config), 1);
    EXPECT_EQ(max_sequence_length(config), 512);
    EXPECT_EQ(max_sequence_length(parse_model_config(
                  start + R"("max_position_embeddings": 40, "pad_token_id": 0})", "config.json")),
              39);
    EXPECT_NE(
        refusal_of(start + R"("pad_token_id": null})", ErrorCode::kBadData).find("pad_token_id is null"),
        std::string::npos);
    const std::string none =
        refusal_of(start + R"("pad_token_id": 7, "max_position_embeddings": 8})", ErrorCode::kBadData);
    EXPECT_NE(none.find("max_position_embeddings is 8"), std::string::npos) << none;
    EXPECT_NE(none.find("pad_token_id + 1 = 8"), std::string::npos) << none;
    for (const char* variant : {R"("is_decoder": true})", R"("position_embedding_type": "relative_key"})",
                                R"("pruned_heads": {"0": [1]}})"})
      EXPECT_FALSE(refusal_of(start + variant, ErrorCode::kUsage).empty()) << variant;
  }
  const ModelConfig bert = parse_model_config(R"({"model_type": "bert", "pad_token_id": 1})", "config.json");
  EXPECT_EQ(max_sequence_length(bert), 512);
  EXPECT_EQ(position_padding_id(bert), -1);
}

// Models without embeddings of token types ignore them, whatever type_vocab_size is.
TEST(ModelConfig, CountsTheTokenTypesThatHaveAnEmbedding) {
  for (const Architecture* architecture : architectures()) {
    ModelConfig config;
    config.model_type = architecture->model_type;
    config.type_vocab_size = 3;
    EXPECT_EQ(num_token_types(config), architecture->has_token_types ? 3 : 0) << config.model_type;
    EXPECT_FALSE(architecture->has_token_types && architecture->types_are_words) << config.model_type;
  }
  EXPECT_TRUE(architecture_of("bert").has_token_types);
  EXPECT_TRUE(architecture_of("gpt2").types_are_words);
}

TEST(ModelConfig, PresetsOfRobertaAreThoseOfTheHub) {
  const struct {
    const char* name;
    const char* type;
    int64_t vocab_size, layers, hidden_size;
  } kPresets[] = {{"roberta-base", "roberta", 50265, 12, 768},
                  {"FacebookAI/roberta-large", "roberta", 50265, 24, 1024},
                  {"distilbert/distilroberta-base", "roberta", 50265, 6, 768},
                  {"FacebookAI/xlm-roberta-base", "xlm-roberta", 250002, 12, 768},
                  {"xlm-roberta-large", "xlm-roberta", 250002, 24, 1024},
                  {"almanach/camembert-base", "camembert", 32005, 12, 768}};
  for (const auto& preset : kPresets) {
    SCOPED_TRACE(preset.name);
    const std::optional<ModelConfig> config = find_preset(preset.name);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(config->model_type, preset.type);
    EXPECT_EQ(config->vocab_size, preset.vocab_size);
    EXPECT_EQ(config->num_hidden_layers, preset.layers);
    EXPECT_EQ(config->hidden_size, preset.hidden_size);
    EXPECT_EQ(config->type_vocab_size, 1);
    EXPECT_EQ(config->layer_norm_eps, 1e-5);
    EXPECT_EQ(max_sequence_length(*config), 512);
  }
}

}  // namespace
}  // namespace plimsoll
