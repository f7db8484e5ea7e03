// Compares generated texts with those of transformers' generate(), token for token. make_generation_fixtures.py describes the cases.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/generator.h"

namespace plimsoll {
namespace {

using nlohmann::json;

const std::string& folder() {
  static const std::string path = PLIMSOLL_SOURCE_DIR "/tests/parity";
  return path;
}

const json& fixtures() {
  static const json all = json::parse(std::ifstream(folder() + "/generation.json"));
  return all;
}

Arguments arguments_of(const json& item) {
  Arguments arguments;
  arguments.model_name_or_path = folder() + "/models/" + item.at("model").get<std::string>();
  arguments.max_new_tokens = fixtures().at("new_tokens").get<int64_t>();
  arguments.num_threads = 2;
  for (const auto& [key, value] : item.at("options").items()) {
    if (key == "num_beams") arguments.num_beams = value.get<int64_t>();
    if (key == "num_return_sequences") arguments.num_return_sequences = value.get<int64_t>();
    if (key == "length_penalty") arguments.length_penalty = value.get<double>();
    if (key == "early_stopping") arguments.early_stopping = value.get<bool>() ? "true" : "false";
    if (key == "repetition_penalty") arguments.repetition_penalty = value.get<double>();
    if (key == "no_repeat_ngram_size") arguments.no_repeat_ngram_size = value.get<int64_t>();
    if (key == "min_new_tokens") arguments.min_new_tokens = value.get<int64_t>();
  }
  return arguments;
}

std::vector<std::vector<std::vector<int32_t>>> tokens_of(
    const std::vector<std::vector<Continuation>>& texts) {
  std::vector<std::vector<std::vector<int32_t>>> tokens;
  for (const std::vector<Continuation>& of_prompt : texts) {
    std::vector<std::vector<int32_t>>& list = tokens.emplace_back();
    for (const Continuation& text : of_prompt) list.push_back(text.tokens);
  }
  return tokens;
}

// Generates all prompts of a case in one batch; they have different lengths.
TEST(GenerationParity, EveryTokenIsThatOfTransformers) {
  ASSERT_GE(fixtures().at("cases").size(), 24u);
  const auto prompts = fixtures().at("prompts").get<std::vector<std::string>>();
  for (const json& item : fixtures().at("cases")) {
    SCOPED_TRACE(item.at("model").get<std::string>() + " " + item.at("options").dump());
    Generator generator(arguments_of(item), prompts);
    const auto expected = item.at("texts").get<std::vector<std::vector<std::vector<int32_t>>>>();
    EXPECT_EQ(tokens_of(generator.generate()), expected);
  }
}

// Generates the text of each prompt alone, with a plan that has room for the longest prompt. The texts must
// equal those that are generated from all prompts in one batch.
TEST(GenerationParity, ATextDoesNotDependOnTheOtherPrompts) {
  const auto prompts = fixtures().at("prompts").get<std::vector<std::string>>();
  for (const json& item : fixtures().at("cases")) {
    if (item.at("model") != "llama_lm") continue;
    SCOPED_TRACE(item.at("options").dump());
    Generator generator(arguments_of(item), {}, 24);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto expected = item.at("texts")[i].get<std::vector<std::vector<int32_t>>>();
      EXPECT_EQ(tokens_of({generator.generate(prompts[i])}).front(), expected) << prompts[i];
    }
  }
}

// Sampled texts must be repeatable, must differ between the samples of a prompt and between seeds, and must
// contain only tokens that top_k permits.
TEST(GenerationParity, SamplesDependOnTheSeedAlone) {
  Arguments arguments = arguments_of({{"model", "gpt2_lm"}, {"options", json::object()}});
  arguments.do_sample = true;
  arguments.num_return_sequences = 3;
  const auto run = [&](int64_t seed, const std::vector<std::string>& prompts) {
    arguments.seed = seed;
    return tokens_of(Generator(arguments, prompts).generate());
  };
  const auto first = run(1, {"good", "a bad movie"});
  EXPECT_EQ(run(1, {"good", "a bad movie"}), first);
  EXPECT_EQ(run(1, {"good"}).front(), first.front());
  EXPECT_NE(run(2, {"good", "a bad movie"}), first);
  EXPECT_NE(first[0][0], first[0][1]);
  arguments.top_k = 1;
  arguments.num_return_sequences = 1;
  const auto most_likely = run(1, {"good"});
  arguments.do_sample = false;
  EXPECT_EQ(run(1, {"good"}), most_likely);
}

// The plan lists the memory of the KV cache separately. With more beams, this memory must grow by the pages that the beams do not share.
TEST(GenerationParity, ThePlanShowsWhatABeamCosts) {
  const auto cache_bytes = [](int64_t beams) {
    Arguments arguments = arguments_of({{"model", "gpt2_lm"}, {"options", {{"num_beams", beams}}}});
    const Generator generator(arguments, {"this is the best story of the year and"});
    const json plan = json::parse(generator.plan().json);
    return plan.at("by_phase").at("generate").at("by_purpose").at("functionality_specific").get<int64_t>();
  };
  // A page of the KV cache has 2 layers x 2 (key and value) x 16 tokens x 32 values x 4 bytes = 8192 bytes. 21
  // prompt tokens and 23 generated tokens need 3 pages per beam; the beams share the first page.
  const int64_t page = 2 * 2 * 16 * 32 * 4;
  EXPECT_EQ(cache_bytes(1), 3 * page);
  EXPECT_EQ(cache_bytes(4), (1 + 4 * 2) * page);
}

TEST(GenerationParity, RefusesWhatItCannotGenerate) {
  const auto error_of = [](const Arguments& arguments, std::vector<std::string> prompts) -> std::string {
    try {
      Generator generator(arguments, std::move(prompts));
      generator.generate();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "no error";
  };
  Arguments arguments = arguments_of({{"model", "gpt2_lm"}, {"options", json::object()}});
  std::string long_prompt;
  for (int i = 0; i < 70; ++i) long_prompt += "good ";
  EXPECT_NE(error_of(arguments, {"good", long_prompt}).find("64"), std::string::npos);
  arguments.max_new_tokens = 60;
  EXPECT_NE(error_of(arguments, {"this is the best story of the year"}).find("64"), std::string::npos);
  arguments.max_new_tokens = 4;
  arguments.num_return_sequences = 2;
  EXPECT_NE(error_of(arguments, {"good"}).find("num_return_sequences is 2"), std::string::npos);
  arguments = arguments_of({{"model", "bert"}, {"options", json::object()}});
  EXPECT_NE(error_of(arguments, {"good"}).find("has no head for causal language modelling"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
