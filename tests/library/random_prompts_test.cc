// Tests generation from random prompts (--dataset_name dummy). Texts must have exactly the requested number of
// tokens, neither a tokenizer nor weights must be needed, and the reported numbers must follow from formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "plimsoll/error.h"
#include "plimsoll/generator.h"

namespace plimsoll {
namespace {

std::string model_folder(const std::string& name) {
  return PLIMSOLL_SOURCE_DIR "/tests/parity/models/" + name;
}

Arguments random_run(const std::string& model, int64_t prompts, int64_t length, int64_t new_tokens) {
  Arguments arguments;
  arguments.config_name = model_folder(model);
  arguments.dataset_name = "dummy";
  arguments.dummy_num_samples = prompts;
  arguments.dummy_seq_length = length;
  arguments.max_new_tokens = new_tokens;
  arguments.num_threads = 2;
  arguments.use_cpu = true;
  return arguments;
}

// Every text must have exactly the requested number of tokens, although the models have an end-of-text token. This must be true for each
// way to select tokens, and if the prompts run in several groups.
TEST(RandomPrompts, EveryTextHasExactlyTheNewTokensAskedFor) {
  for (const std::string model : {"gpt2_lm", "llama_lm", "mistral_lm", "qwen3_lm"}) {
    for (const int64_t beams : {1, 3}) {
      for (const bool samples : {false, true}) {
        SCOPED_TRACE(model + ", " + std::to_string(beams) + " beams, " +
                     (samples ? "sampled" : "most likely"));
        Arguments arguments = random_run(model, 10, 7, 20);
        arguments.num_beams = beams;
        arguments.do_sample = samples;
        Generator generator(arguments);
        const auto texts = generator.generate();
        ASSERT_EQ(texts.size(), 10u);
        for (const auto& of_prompt : texts) {
          ASSERT_EQ(of_prompt.size(), 1u);
          EXPECT_EQ(of_prompt[0].tokens.size(), 20u);
          EXPECT_EQ(of_prompt[0].end, "length");
          EXPECT_EQ(of_prompt[0].text, "");
        }
        const GenerationSpeed speed = generator.speed();
        EXPECT_EQ(speed.num_prompts, 10);
        EXPECT_EQ(speed.prompt_tokens, 70);
        EXPECT_EQ(speed.num_texts, 10);
        EXPECT_EQ(speed.new_tokens, 200);
        // The 10 prompts run in two groups, of 8 and of 2. The first of the 20 tokens of each text comes from
        // the prefill, so each group has 19 decode runs.
        EXPECT_EQ(speed.decode_runs, 2 * 19);
        EXPECT_EQ(speed.decoded_tokens, 10 * 19 * beams);
        EXPECT_GT(speed.first_token_seconds, 0);
        EXPECT_LE(speed.first_token_seconds, speed.prefill_seconds);
        EXPECT_LE(speed.prefill_seconds + speed.decode_seconds, speed.seconds);
        const MemoryFigures memory = generator.memory();
        EXPECT_LE(memory.arena_high_water_bytes, memory.arena_bytes);
        EXPECT_GT(memory.arena_high_water_bytes, 0);
      }
    }
  }
}

// Checks the number of bytes that one decode run (the computation of one token per text) reads. Weights: all of
// them, except that only single rows of embedding tables are read. KV cache: the keys and values of the new
// token and of all tokens before it, or of those in the attention window.
TEST(RandomPrompts, TheBytesThatDecodingReadsAreThoseOfTheFormulas) {
  struct Case {
    std::string model;
    int64_t heads_width;  // number of elements of a token's key, all heads together
    int64_t window;
    int64_t table_bytes;  // bytes of the tables that are read row by row and enter no matrix product
  };
  // GPT-2's head is tied to the word embeddings, so every run reads that table completely; only the table of
  // the 64 position embeddings is read row by row. In the other models the head has a separate matrix, so the
  // word embeddings are read row by row.
  for (const Case& item : {Case{"gpt2_lm", 32, 0, 64 * 32 * 4}, Case{"llama_lm", 8, 0, 179 * 32 * 4},
                           Case{"mistral_lm", 16, 6, 179 * 32 * 4}}) {
    SCOPED_TRACE(item.model);
    Generator generator(random_run(item.model, 3, 5, 9));
    generator.generate();
    const GenerationSpeed speed = generator.speed();
    int64_t cached_tokens = 0;
    for (int64_t length = 6; length <= 5 + 8; ++length)
      cached_tokens += item.window > 0 ? std::min(item.window, length) : length;
    const int64_t layers = 2;
    EXPECT_EQ(speed.cache_bytes_read,
              static_cast<double>(3 * cached_tokens * layers * 2 * item.heads_width * 4));
    const auto plan = nlohmann::json::parse(generator.plan().json);
    const auto weights =
        plan.at("by_phase").at("generate").at("by_purpose").at("model_weights").get<int64_t>();
    // The plan rounds each weight up to whole cache lines, so a run reads a little less than the planned bytes.
    const double per_run = speed.weight_bytes_read / static_cast<double>(speed.decode_runs);
    EXPECT_LE(per_run, static_cast<double>(weights - item.table_bytes));
    EXPECT_GT(per_run, static_cast<double>(weights - item.table_bytes) * 0.99);
  }
}

// The times that a plan predicts for an H200 must be near those that were measured there with bf16 and prompts of 64 tokens
// (bench/results/h200-2026-12-01.md): milliseconds per run of the model for one new token per text, with the selection of tokens.
TEST(RandomPrompts, PlansPredictTheTimesOfAnH200) {
  struct Case {
    const char* model;
    int64_t prompts, beams, new_tokens;
    double measured_ms;
  };
  for (const Case& item :
       {Case{"gpt2", 8, 4, 128, 0.389}, Case{"gpt2", 1, 1, 256, 0.255}, Case{"gpt2-medium", 1, 1, 256, 0.550},
        Case{"meta-llama/Llama-3.2-1B", 1, 1, 256, 0.867}, Case{"meta-llama/Llama-3.2-1B", 2, 1, 256, 0.960},
        Case{"meta-llama/Llama-3.2-1B", 8, 1, 256, 1.054}, Case{"meta-llama/Llama-3.2-3B", 1, 1, 256, 2.114},
        Case{"Qwen2.5-0.5B", 1, 1, 256, 0.682}, Case{"Qwen3-0.6B", 1, 1, 256, 0.923}}) {
    Arguments arguments;
    arguments.config_name = item.model;
    arguments.dataset_name = "dummy";
    arguments.dummy_num_samples = arguments.per_device_eval_batch_size = item.prompts;
    arguments.dummy_seq_length = 64;
    arguments.max_new_tokens = item.new_tokens;
    arguments.num_beams = item.beams;
    arguments.bf16_full_eval = true;
    arguments.device = "h200";
    const auto plan = nlohmann::json::parse(plan_generation(arguments).json);
    const double planned = plan.at("generation").at("estimate").at("decode_run_ms").get<double>();
    EXPECT_NEAR(planned / item.measured_ms, 1.0, 0.1) << item.model << " with " << item.prompts << " prompts";
  }
}

TEST(RandomPrompts, SeedsDetermineWeightsAndPrompts) {
  const auto tokens_of = [](int64_t seed) {
    Arguments arguments = random_run("llama_lm", 2, 6, 12);
    arguments.seed = seed;
    return Generator(arguments).generate()[1][0].tokens;
  };
  EXPECT_EQ(tokens_of(1), tokens_of(1));
  EXPECT_NE(tokens_of(1), tokens_of(2));
}

// If the model's folder contains weights, the texts must come from these weights and not from random ones.
TEST(RandomPrompts, WeightsOfAFolderAreLoaded) {
  Arguments arguments = random_run("llama_lm", 2, 6, 12);
  const auto random = Generator(arguments).generate();
  arguments.config_name.clear();
  arguments.model_name_or_path = model_folder("llama_lm");
  EXPECT_NE(Generator(arguments).generate()[0][0].tokens, random[0][0].tokens);
}

TEST(RandomPrompts, ContradictionsAreRefused) {
  const auto error_of = [](const Arguments& arguments, std::vector<std::string> prompts) -> std::string {
    try {
      Generator generator(arguments, std::move(prompts));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "no error";
  };
  Arguments arguments = random_run("gpt2_lm", 2, 6, 12);
  EXPECT_EQ(
      error_of(arguments, {"a text"}),
      "prompts are given in two ways: --dataset_name dummy, which draws them, and 1 text; give one of them");
  arguments.stop_strings = {"end"};
  EXPECT_EQ(
      error_of(arguments, {}),
      "--stop_strings needs a tokenizer, and random prompts (--dataset_name dummy) have none; leave one of "
      "them out");
  arguments = random_run("gpt2_lm", 2, 60, 12);
  EXPECT_NE(error_of(arguments, {}).find("has room for 4"), std::string::npos);
  arguments = random_run("gpt2_lm", 2, 6, 12);
  arguments.dataset_name.clear();
  EXPECT_NE(error_of(arguments, {"a text"}).find("or --dataset_name dummy to measure"), std::string::npos);
  arguments.model_name_or_path = model_folder("gpt2_lm");
  arguments.config_name.clear();
  arguments.dataset_name = "glue";
  arguments.task_name = "mrpc";
  EXPECT_NE(error_of(arguments, {"a text"}).find("--dataset_name glue: generate takes its prompts"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
