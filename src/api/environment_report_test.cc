#include "plimsoll/environment_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/environment_facts.h"

namespace plimsoll {
namespace {

TEST(EnvironmentReport, JsonHasTheFieldsOfTheText) {
  const EnvironmentReport report = describe_environment({{"HOME", "/no/such/home"}});
  const auto json = nlohmann::ordered_json::parse(report.json);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["plimsoll"], program_version());
  EXPECT_FALSE(json["build"]["compiler"].get<std::string>().empty());
  EXPECT_GT(json["cpu"]["processors"], 0);
  EXPECT_GT(json["memory"]["total_bytes"], 0);
  EXPECT_FALSE(json["onednn"]["version"].get<std::string>().empty());
  EXPECT_EQ(json["onednn"]["instruction_set"].get<std::string>().find("cpu_isa"), std::string::npos);
  EXPECT_EQ(json["caches"][0]["path"], "/no/such/home/.cache/huggingface/hub");
  EXPECT_EQ(json["caches"][1]["path"], "/no/such/home/.cache/plimsoll");
  EXPECT_EQ(json["caches"][1]["exists"], false);
  ASSERT_EQ(json["libraries"].size(), 7u);
  for (const auto& library : json["libraries"]) {
    // Each library must either have been found, or the report must contain the names under which it was searched.
    EXPECT_TRUE(library["file"].is_string() || !library["tried"].empty()) << library;
    EXPECT_NE(report.text.find(library["name"].get<std::string>()), std::string::npos);
    if (library["file"].is_string()) {
      EXPECT_NE(report.text.find(library["file"].get<std::string>()), std::string::npos);
    }
    if (library["file"].is_string()) continue;
    for (const auto& attempt : library["tried"]) {
      EXPECT_NE(report.text.find(attempt["error"].get<std::string>()), std::string::npos) << attempt;
    }
  }
  EXPECT_TRUE(json["nvidia"]["why_no_gpu"].is_null() != json["nvidia"]["gpus"].empty());
}

TEST(EnvironmentReport, SecretsAreLeftOut) {
  EXPECT_EQ(shown_value("HF_TOKEN", "hf_abc"), "(set)");
  EXPECT_EQ(shown_value("HUGGING_FACE_HUB_TOKEN", "hf_abc"), "(set)");
  EXPECT_EQ(shown_value("HF_TOKEN", ""), "");
  EXPECT_EQ(shown_value("HF_TOKEN_PATH", "/home/a/token"), "/home/a/token");
  EXPECT_EQ(shown_value("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"), "1");
  EXPECT_EQ(shown_value("https_proxy", "http://user:pass@proxy:3128/"), "http://proxy:3128/");
  EXPECT_EQ(shown_value("https_proxy", "http://user:p@ss@proxy:3128"), "http://proxy:3128");
  EXPECT_EQ(shown_value("HTTPS_PROXY", "http://user:p/a#s@proxy:3128"), "http://proxy:3128");
  EXPECT_EQ(shown_value("no_proxy", "localhost,127.0.0.1"), "localhost,127.0.0.1");
  EXPECT_EQ(shown_value("ALL_PROXY", "user:pass@proxy:3128"), "proxy:3128");
  EXPECT_EQ(shown_value("http_proxy", "proxy:3128"), "proxy:3128");
  EXPECT_EQ(shown_value("HF_ENDPOINT", "https://me:secret@hub.example"), "https://hub.example");
  EXPECT_EQ(shown_value("HF_ENDPOINT", "https://hub.example/a@b"), "https://hub.example/a@b");
  EXPECT_EQ(shown_value("X", "https://a:b@c,https://d:e@f/"), "https://c,https://f/");
  EXPECT_EQ(shown_value("OMP_PLACES", "{0}@{1}"), "{0}@{1}");
}

TEST(EnvironmentReport, VariablesThatChangeTheProgramAreListed) {
  ASSERT_EQ(setenv("NCCL_TEST_OF_REPORT", "a\nb", 1), 0);
  ASSERT_EQ(setenv("HF_TOKEN", "hf_secret", 1), 0);
  ASSERT_EQ(setenv("UNRELATED_TO_REPORT", "x", 1), 0);
  const Environment variables = reported_variables();
  EXPECT_EQ(variables.at("NCCL_TEST_OF_REPORT"), "a?b");
  EXPECT_EQ(variables.at("HF_TOKEN"), "(set)");
  EXPECT_FALSE(variables.contains("UNRELATED_TO_REPORT"));
  EXPECT_EQ(describe_environment().json.find("hf_secret"), std::string::npos);
  EXPECT_EQ(describe_environment().text.find("hf_secret"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
