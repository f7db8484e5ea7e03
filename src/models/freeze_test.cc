#include "models/freeze.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Glob, MatchesAsFnmatchDoes) {
  EXPECT_TRUE(glob_matches("bert.embeddings.*", "bert.embeddings.LayerNorm.weight"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*.bias", "classifier.bias"));
  EXPECT_TRUE(glob_matches("bert.encoder.layer.[0-5].*", "bert.encoder.layer.5.output.dense.weight"));
  EXPECT_TRUE(glob_matches("layer.1[01].*", "layer.10.x"));
  EXPECT_TRUE(glob_matches("layer.[!0].x", "layer.1.x"));
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_TRUE(glob_matches("a[b", "a[b"));
  EXPECT_TRUE(glob_matches("[]]", "]"));
  EXPECT_FALSE(glob_matches("bert.encoder.layer.[0-5].*", "bert.encoder.layer.11.output.dense.weight"));
  EXPECT_FALSE(glob_matches("layer.[!0].x", "layer.0.x"));
  EXPECT_FALSE(glob_matches("a?c", "ac"));
  EXPECT_FALSE(glob_matches("a", "ab"));
  EXPECT_FALSE(glob_matches("", "a"));
}

ModelConfig small_model() {
  ModelConfig config;
  config.hidden_size = 8;
  config.num_attention_heads = 2;
  config.num_hidden_layers = 2;
  config.intermediate_size = 16;
  config.vocab_size = 20;
  return config;
}

std::string message_of(const std::vector<std::string>& patterns, const ModelConfig& config = small_model()) {
  std::vector<WeightSpec> specs = model_weights(config);
  try {
    freeze_weights(specs, patterns);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return {};
}

TEST(Freeze, MarksWhatIsNamed) {
  std::vector<WeightSpec> specs = model_weights(small_model());
  freeze_weights(specs, {"bert.embeddings.*", "bert.encoder.layer.0.*"});
  int frozen = 0;
  for (const WeightSpec& spec : specs) {
    const bool named = spec.name.starts_with("embeddings.") || spec.name.starts_with("encoder.layer.0.");
    EXPECT_EQ(spec.trainable, !named) << spec.name;
    frozen += spec.trainable ? 0 : 1;
  }
  EXPECT_EQ(frozen, 5 + 12);
}

TEST(RateFactors, TheLongestPatternDecides) {
  std::vector<WeightSpec> specs = model_weights(small_model());
  set_rate_factors(specs,
                   {{"*", 0.5}, {"bert.encoder.layer.0.*", 0.25}, {"*.bias", 2}, {"classifier.*", 10}});
  for (const WeightSpec& spec : specs) {
    const std::string& name = spec.parts.front().disk_names.front();
    const double expected = name.starts_with("bert.encoder.layer.0.") ? 0.25
                            : name.starts_with("classifier.")         ? 10
                            : name.ends_with(".bias")                 ? 2
                                                                      : 0.5;
    EXPECT_EQ(spec.rate_factor, expected) << name;
  }
}

TEST(RateFactors, RefusesByName) {
  const auto message = [](const std::map<std::string, double>& factors) -> std::string {
    std::vector<WeightSpec> specs = model_weights(small_model());
    freeze_weights(specs, {"bert.pooler.*"});
    try {
      set_rate_factors(specs, factors);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return {};
  };
  EXPECT_NE(message({{"bert.encodr.*", 2}}).find("--learning_rate_factors bert.encodr.*=2: no parameter"),
            std::string::npos);
  EXPECT_NE(message({{"bert.pooler.*", 2}}).find("trains none of the parameters"), std::string::npos);
  EXPECT_NE(message({{"*.key.*", 2}}).find("key"), std::string::npos);
  EXPECT_EQ(message({{"*.query.*", 2}, {"*.key.*", 2}, {"*.value.*", 2}}), "");
  EXPECT_EQ(message({}), "");
}

TEST(Freeze, RefusesByName) {
  const std::string unknown = message_of({"bert.embedings.LayerNorm.weight"});
  EXPECT_NE(unknown.find("the nearest names are bert.embeddings.LayerNorm.weight"), std::string::npos)
      << unknown;
  const std::string part = message_of({"*.query.weight"});
  EXPECT_NE(part.find("self.query.weight, but not bert.encoder.layer.0.attention.self.key.weight"),
            std::string::npos)
      << part;
  EXPECT_NE(message_of({"*"}).find("nothing is left to train"), std::string::npos);
  EXPECT_EQ(message_of({"*.query.*", "*.key.*", "*.value.*"}), "");
}

TEST(Freeze, NamesTheEncoderOfTheModel) {
  const std::pair<std::string, std::string> encoders[] = {
      {"bert", "bert"},       {"distilbert", "distilbert"}, {"electra", "electra"},   {"gpt2", "transformer"},
      {"roberta", "roberta"}, {"xlm-roberta", "roberta"},   {"camembert", "roberta"}, {"llama", "model"}};
  for (const auto& [model_type, encoder] : encoders) {
    ModelConfig config = small_model();
    config.model_type = model_type;
    const std::string message = message_of({"*"}, config);
    EXPECT_NE(message.find("as in --freeze '" + encoder + ".*'"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace plimsoll
