#include "generate/generation_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/check.h"
#include "base/guarded_json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Expects the error with the code, whose message contains the words.
void expect_error(ErrorCode code, const std::string& words, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "no error with '" << words << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

GenerationSettings read(const std::string& text) {
  GenerationSettings settings;
  read_generation_config(Json::parse(text), "generation_config.json", &settings);
  return settings;
}

TEST(GenerationSettings, ReadsTheFilesOfModels) {
  const GenerationSettings llama =
      read(R"({"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008, 128009],
      "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0.dev0"})");
  EXPECT_TRUE(llama.sampling.do_sample);
  EXPECT_EQ(llama.sampling.temperature, 0.6);
  EXPECT_EQ(llama.sampling.top_p, 0.9);
  EXPECT_EQ(llama.sampling.top_k, 50) << "the default of transformers";
  EXPECT_EQ(llama.eos_token_ids, (std::vector<int32_t>{128001, 128008, 128009}));
  EXPECT_EQ(llama.bos_token_id, 128000);
  const GenerationSettings qwen =
      read(R"({"bos_token_id": 151643, "pad_token_id": -1, "do_sample": true, "eos_token_id": 151645,
      "repetition_penalty": 1.1, "temperature": 1, "top_p": 0.8, "top_k": 20, "max_window_size": 6144, "min_p": null})");
  EXPECT_EQ(qwen.eos_token_ids, std::vector<int32_t>{151645});
  EXPECT_EQ(qwen.repetition_penalty, 1.1);
  EXPECT_EQ(qwen.sampling.temperature, 1.0);
  EXPECT_FALSE(qwen.pad_token_id);
  EXPECT_FALSE(qwen.sampling.min_p);
  const GenerationSettings bart =
      read(R"({"_from_model_config": true, "early_stopping": true, "length_penalty": 2.0, "max_length": 142,
      "min_length": 56, "no_repeat_ngram_size": 3, "num_beams": 4, "typical_p": 1.0, "bad_words_ids": null, "guidance_scale": 1,
      "num_beam_groups": 1, "diversity_penalty": 0.0, "stop_strings": "\n\n"})");
  EXPECT_EQ(bart.beams.early_stopping, BeamStopping::kWhenFull);
  EXPECT_EQ(bart.stop_strings, std::vector<std::string>{"\n\n"});
  EXPECT_EQ(max_new_tokens(bart, 10, 1024), 132);
  EXPECT_EQ(min_new_tokens(bart, 10), 46);
  EXPECT_EQ(read(R"({"early_stopping": "never"})").beams.early_stopping, BeamStopping::kNever);
}

TEST(GenerationSettings, KnowsEveryKeyOfTransformers) {
  const Json fixture = read_json_object(PLIMSOLL_SOURCE_DIR "/src/generate/fixtures/generation.json");
  const std::vector<std::string> known = known_generation_keys();
  EXPECT_EQ(std::ranges::adjacent_find(known), known.end()) << "a key is listed twice";
  int num_keys = 0;
  for (const Json& key : fixture.at("keys")) {
    EXPECT_TRUE(std::ranges::binary_search(known, key.get<std::string>())) << key;
    ++num_keys;
  }
  EXPECT_GE(num_keys, 60);
}

TEST(GenerationSettings, RefusesWhatItDoesNotImplement) {
  for (const char* text :
       {R"({"typical_p": 0.9})", R"({"suppress_tokens": [1]})", R"({"forced_bos_token_id": 2})",
        R"({"renormalize_logits": true})", R"({"guidance_scale": 1.5})", R"({"diversity_penalty": 0.5})",
        R"({"penalty_alpha": 0.6})", R"({"max_time": 3.0})", R"({"watermarking_config": {"bias": 2.5}})",
        R"({"exponential_decay_length_penalty": [5, 1.1]})"}) {
    const std::string name = Json::parse(text).begin().key();
    expect_error(ErrorCode::kUsage, "generation_config.json: " + name + " is ", [&] { read(text); });
  }
}

TEST(GenerationSettings, RefusesWrongTypesAndRanges) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([1])", "must contain a JSON object"},
      {R"({"temperature": "hot"})", "temperature is \"hot\"; it must be a number"},
      {R"({"temperature": 0.0, "do_sample": true})", "Set do_sample to false"},
      {R"({"temperature": 1e-60})", "temperature is 1e-60; it must be a finite number above 0"},
      {R"({"top_k": 2.5})", "top_k is 2.5; it must be a whole number"},
      {R"({"top_k": -1})", "top_k is -1; it must be at least 0"},
      {R"({"top_k": 18446744073709551615})", "it must be a whole number"},
      {R"({"top_p": 1.5})", "top_p is 1.5; it must be between 0 and 1"},
      {R"({"min_p": -0.1})", "min_p is -0.1; it must be between 0 and 1"},
      {R"({"do_sample": 1})", "do_sample is 1; it must be true or false"},
      {R"({"eos_token_id": [1, "</s>"]})", "eos_token_id is \"</s>\"; it must be a whole number"},
      {R"({"eos_token_id": -2})", "it must be a token id of at least 0"},
      {R"({"bos_token_id": 99999999999})", "it must be a token id of at least 0"},
      {R"({"early_stopping": "always"})", "it must be true, false or \"never\""},
      {R"({"stop_strings": ["a", 1]})", "it must be a text or a list of texts"},
      {R"({"stop_strings": ["a", ""]})", "an empty text"},
      {R"({"num_beams": 0})", "num_beams is 0; it must be at least 1"},
      {R"({"repetition_penalty": -1})", "repetition_penalty is -1; it must be a finite number above 0"},
      {R"({"max_new_tokens": 0})", "max_new_tokens is 0; it must be at least 1"},
      {R"({"num_return_sequences": 3})", "greedy decoding gives one text"},
      {R"({"num_return_sequences": 3, "num_beams": 2})", "num_beams is 2"},
  };
  for (const auto& [text, words] : cases) {
    expect_error(ErrorCode::kBadData, words, [&, text = text] { read(text); });
  }
  EXPECT_EQ(read(R"({"num_return_sequences": 3, "do_sample": true})").num_return_sequences, 3);
}

TEST(GenerationSettings, AFaultyFileChangesNothing) {
  GenerationSettings settings;
  EXPECT_THROW(read_generation_config(Json::parse(R"({"num_beams": 4, "top_p": 7})"), "x", &settings), Error);
  EXPECT_EQ(settings.beams.num_beams, 1);
}

TEST(GenerationSettings, Lengths) {
  GenerationSettings settings;
  EXPECT_EQ(max_new_tokens(settings, 5, 1024), 20) << "20 new tokens, as transformers";
  EXPECT_EQ(max_new_tokens(settings, 1020, 1024), 4);
  expect_error(ErrorCode::kUsage, "the prompt has 1024 tokens and the model has 1024 positions",
               [&] { max_new_tokens(settings, 1024, 1024); });
  settings.length.max_length = 8;
  EXPECT_EQ(max_new_tokens(settings, 5, 1024), 3);
  expect_error(ErrorCode::kUsage, "max_length is 8, which includes the prompt of 8 tokens",
               [&] { max_new_tokens(settings, 8, 1024); });
  settings.length.max_length = 4096;
  EXPECT_EQ(max_new_tokens(settings, 24, 1024), 1000);
  settings.length.max_new_tokens = 30;
  EXPECT_EQ(max_new_tokens(settings, 5, 35), 30) << "max_new_tokens has precedence";
  expect_error(ErrorCode::kUsage, "set max_new_tokens to at most 29",
               [&] { max_new_tokens(settings, 6, 35); });
  settings.length.min_length = 9;
  EXPECT_EQ(min_new_tokens(settings, 5), 4);
  EXPECT_EQ(min_new_tokens(settings, 15), 0);
  settings.length.min_new_tokens = 2;
  EXPECT_EQ(min_new_tokens(settings, 5), 2);
}

TEST(GenerationSettings, TheVocabularyHasTheSpecialTokensAndEnoughCandidates) {
  GenerationSettings settings;
  settings.eos_token_ids = {3, 50257};
  expect_error(ErrorCode::kUsage,
               "eos_token_id is 50257, but the vocabulary of the model has the ids 0 to 50256",
               [&] { check_generation_vocabulary(settings, 50257); });
  settings.eos_token_ids = {3, 5};
  settings.beams.num_beams = 4;
  check_generation_vocabulary(settings, 12);
  expect_error(ErrorCode::kUsage, "which allow 3 beams", [&] { check_generation_vocabulary(settings, 11); });
  settings.beams.num_beams = 1;
  check_generation_vocabulary(settings, 6);
}

}  // namespace
}  // namespace plimsoll
