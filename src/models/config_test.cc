// Faults that fuzzing found in the readers of config.json and --config_overrides, and round trips of presets. Whole
// files are in tests/bad_input and tests/parity.
#include "models/config.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

TEST(ModelConfig, RefusesANumberThatNoDoubleHolds) {
  try {
    parse_model_config(R"({"model_type": "bert", "layer_norm_eps": 1e999})", "config.json");
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    EXPECT_TRUE(std::string(error.what()).starts_with("config.json: a number is too large")) << error.what();
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

TEST(ModelConfig, KeepsEveryPresetThroughItsFile) {
  ASSERT_GT(preset_names().size(), 4u);
  for (const std::string& name : preset_names()) {
    const ModelConfig preset = *find_preset(name);
    const std::string written = model_config_json(preset);
    EXPECT_EQ(model_config_json(parse_model_config(written, name)), written);
  }
}

}  // namespace
}  // namespace plimsoll
