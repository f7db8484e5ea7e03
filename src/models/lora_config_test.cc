#include "models/lora_config.h"

#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "models/config.h"

namespace plimsoll {
namespace {

std::string message_of(const std::string& json, ErrorCode code) {
  try {
    parse_adapter_config(json, "a/adapter_config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string with(const std::string& settings) {
  return R"({"peft_type": "LORA", )" + settings + "}";
}

TEST(AdapterConfig, IsReadBackAsItWasWritten) {
  AdapterConfig config;
  config.base_model = "bert-base-uncased";
  config.lora = {
      .r = 4, .alpha = 12.5, .dropout = 0.1, .target_modules = {"key", "query"}, .use_rslora = true};
  const std::string written = adapter_config_json(config, "bert");
  const AdapterConfig again = parse_adapter_config(written, "x");
  EXPECT_EQ(adapter_config_json(again, "bert"), written);
  EXPECT_EQ(again.lora.target_modules, config.lora.target_modules);
  EXPECT_EQ(again.lora.alpha, 12.5);
}

TEST(AdapterConfig, NamesFileKeyAndBothValues) {
  EXPECT_NE(message_of("[]", ErrorCode::kBadData).find("a/adapter_config.json"), std::string::npos);
  EXPECT_NE(message_of(with(R"("r": 1e300)"), ErrorCode::kBadData).find("\"r\" is 1e+300"),
            std::string::npos);
  EXPECT_NE(message_of(with(R"("r": 2.5)"), ErrorCode::kBadData).find("2.5"), std::string::npos);
  EXPECT_NE(message_of(with(R"("lora_dropout": 1)"), ErrorCode::kBadData).find("below 1"), std::string::npos);
  EXPECT_NE(message_of(with(R"("use_dora": true)"), ErrorCode::kUsage).find("use_dora"), std::string::npos);
  EXPECT_NE(message_of(R"({"peft_type": "IA3"})", ErrorCode::kUsage).find("IA3"), std::string::npos);
}

TEST(AdapterConfig, RefusesWhatWouldExhaustTheStack) {
  const std::string deep = with(R"("bias": )" + std::string(100000, '[') + std::string(100000, ']'));
  EXPECT_NE(message_of(deep, ErrorCode::kBadData).find("nested deeper than 64"), std::string::npos);
}

TEST(AdapterConfig, WritesHugeFactorsAsTheyAre) {
  const AdapterConfig huge = parse_adapter_config(with(R"("lora_alpha": 1e300)"), "x");
  EXPECT_EQ(parse_adapter_config(adapter_config_json(huge, "bert"), "x").lora.alpha, 1e300);
}

// The expression of an adapter of unknown origin.
std::vector<LoraTarget> targets_of(const std::string& expression) {
  const std::vector<WeightSpec> specs = model_weights(*find_preset("bert-base-uncased"));
  return lora_targets(specs, "bert", {.target_modules = {expression}});
}

TEST(LoraTargets, ExpressionsFitWholeNames) {
  EXPECT_EQ(targets_of(R"(.*\.(query|value))").size(), 24U);
  EXPECT_EQ(targets_of(R"(bert\.encoder\.layer\.[01]\.attention\.self\.key)").size(), 2U);
}

TEST(LoraTargets, HostileExpressionsEndSoon) {
  // Each of these takes a matcher that goes back time or stack beyond any machine.
  for (const std::string& expression :
       {std::string("(.*)*(.*)*(.*)*X"), std::string("(([a-z.]+)+)+!"),
        std::string("(a|a|b)*(a{1000}){1000}"), std::string(100000, '('), R"((.*)\1)" + std::string()}) {
    EXPECT_THROW(targets_of(expression), Error) << expression.substr(0, 40);
  }
}

}  // namespace
}  // namespace plimsoll
