// Tests plan_generation(): without weights and tokenizer it makes the same plan as a run, and the arena of the run has the planned size.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "device/cpu/cpu_features.h"
#include "plimsoll/error.h"
#include "plimsoll/generator.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::string model_folder(const std::string& name) {
  return PLIMSOLL_SOURCE_DIR "/tests/parity/models/" + name;
}

Arguments arguments_for(int64_t beams, int64_t new_tokens) {
  Arguments arguments;
  arguments.num_beams = beams;
  arguments.max_new_tokens = new_tokens;
  arguments.num_threads = 2;
  arguments.device = "cpu";
  return arguments;
}

// Returns plan.json without the arguments, and without the plans for other numbers of beams, which only plan_generation() makes.
std::string plan_of(const PlanReport& report) {
  json plan = json::parse(report.json);
  plan.at("generation").erase("beams");
  plan.erase("request");
  return plan.dump(1);
}

TEST(PlanGeneration, ThePlanIsThatOfTheRunAndTheArenaIsHeld) {
  for (const std::string model : {"gpt2_lm", "llama_lm", "mistral_lm", "qwen3_lm"}) {
    for (const int64_t beams : {1, 2, 3, 4, 8}) {
      for (const char* precision : {"", "bf16", "bf16_full_eval"}) {
        SCOPED_TRACE(model + ", " + std::to_string(beams) + " beams, " + precision);
        // Skips bf16 on a CPU without instructions for bf16 products, where the planner refuses it.
        if (precision != std::string() && !has_bf16_products(cpu_isa())) continue;
        Arguments arguments = arguments_for(beams, 20);
        arguments.bf16 = precision == std::string("bf16");
        arguments.bf16_full_eval = precision == std::string("bf16_full_eval");
        arguments.dataset_name = "dummy";
        arguments.dummy_num_samples = 5;
        arguments.dummy_seq_length = 21;
        arguments.config_name = model_folder(model);
        const PlanReport planned = plan_generation(arguments);
        Generator generator(arguments);
        EXPECT_EQ(plan_of(planned), plan_of(generator.plan()));
        generator.generate();
        const MemoryFigures memory = generator.memory();
        EXPECT_EQ(memory.arena_bytes, planned.arena_bytes);
        EXPECT_EQ(memory.arena_high_water_bytes, planned.arena_bytes);
        EXPECT_EQ(memory.predicted_total_bytes, planned.total_bytes);
      }
    }
  }
}

// A plan that is made without a tokenizer must equal the plan of a run with one. Without a tokenizer, plan_generation()
// assumes that the vocabulary of the tokenizer has the size of the model's, which is true for this model.
TEST(PlanGeneration, ThePlanNeedsNoTokenizerAndNoWeights) {
  const test::ScratchFolder folder;
  for (const int64_t beams : {1, 4}) {
    Arguments arguments = arguments_for(beams, 12);
    arguments.model_name_or_path = model_folder("gpt2_lm");
    const std::string prompt = "this is the best story of the year";
    Generator generator(arguments, {prompt});
    const int64_t length = generator.plan().generation->longest_prompt;
    arguments.per_device_eval_batch_size = 1;
    const std::string of_run = plan_of(generator.plan());
    EXPECT_EQ(plan_of(plan_generation(arguments, length)), of_run);
    // A plan must need no other file of the model than config.json and generation_config.json.
    arguments.model_name_or_path.clear();
    arguments.config_name = folder.path() + "/bare";
    std::filesystem::create_directories(arguments.config_name);
    for (const char* name : {"config.json", "generation_config.json"}) {
      std::error_code ignored;
      std::filesystem::copy_file(model_folder("gpt2_lm") + "/" + name, arguments.config_name + "/" + name,
                                 std::filesystem::copy_options::overwrite_existing, ignored);
    }
    EXPECT_EQ(plan_of(plan_generation(arguments, length)), of_run);
  }
}

// The expected sizes: a page of the KV cache has 2 layers x 2 (key and value) x 16 tokens x 32 values x 4 bytes
// = 8192 bytes. 21 prompt tokens and 23 stored new tokens need 3 pages per beam, and the beams of a prompt
// share the first page. Each row of the report must equal the plan of a run with that number of beams.
TEST(PlanGeneration, OtherNumbersOfBeamsAreThoseOfTheirOwnPlans) {
  Arguments arguments = arguments_for(3, 24);
  arguments.config_name = model_folder("gpt2_lm");
  arguments.per_device_eval_batch_size = 2;
  const PlanReport report = plan_generation(arguments, 21, {}, Savings::kPlan);
  ASSERT_TRUE(report.generation.has_value());
  const PlannedGeneration& generation = *report.generation;
  EXPECT_EQ(generation.cache_bytes_per_token, 2 * 2 * 32 * 4);
  EXPECT_EQ(generation.page_tokens, 16);
  EXPECT_EQ(generation.shared_pages, 1);
  EXPECT_EQ(generation.own_pages, 2);
  EXPECT_EQ(generation.num_pages, 2 * (1 + 3 * 2));
  EXPECT_EQ(generation.cache_bytes(), 2 * (1 + 3 * 2) * 8192);
  std::vector<int64_t> numbers;
  for (const PlannedBeams& beams : generation.beams) {
    numbers.push_back(beams.num_beams);
    EXPECT_EQ(beams.num_pages, 2 * (1 + beams.num_beams * 2));
    EXPECT_EQ(beams.cache_bytes, beams.num_pages * 8192);
    Arguments own = arguments;
    own.num_beams = beams.num_beams;
    const PlanReport own_plan = plan_generation(own, 21);
    EXPECT_EQ(beams.total_bytes, own_plan.total_bytes);
    EXPECT_EQ(beams.arena_bytes, own_plan.arena_bytes);
    EXPECT_EQ(beams.new_tokens_per_s, own_plan.generation->new_tokens_per_s);
    EXPECT_GT(beams.new_tokens_per_s, 0);
  }
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3, 4, 8}));
  EXPECT_NE(report.savings.find("3 (this plan)"), std::string::npos);
  const json plan = json::parse(report.json);
  EXPECT_EQ(plan.at("generation").at("beams").size(), 5u);
  EXPECT_EQ(plan.at("generation").at("cache").at("bytes"), generation.cache_bytes());
}

TEST(PlanGeneration, ACardNeedsNoGpu) {
  Arguments arguments = arguments_for(4, 256);
  arguments.config_name = "Llama-3.1-8B";
  arguments.bf16_full_eval = true;
  arguments.device = "h100";
  const PlanReport report = plan_generation(arguments, 1024);
  EXPECT_TRUE(report.fits);
  // Bytes of keys and values per token: 32 layers x 2 x 8 heads of 128 values in 16 bits.
  EXPECT_EQ(report.generation->cache_bytes_per_token, 32 * 2 * 8 * 128 * 2);
  // Each of the 8 prompts has 64 full pages that its beams share, and 255 stored new tokens need 16 pages for
  // each of the 4 beams.
  EXPECT_EQ(report.generation->num_pages, 8 * (64 + 4 * 16));
}

// If a plan does not fit, the message lists changes of the arguments that make it fit. The memory that each
// line states must be that of a plan with these arguments.
TEST(PlanGeneration, APlanThatDoesNotFitNamesWhatWould) {
  Arguments arguments = arguments_for(8, 512);
  arguments.config_name = "gpt2";
  arguments.memory_limit = int64_t{1} << 30;
  const PlanReport report = plan_generation(arguments, 256, {}, Savings::kPlan);
  EXPECT_FALSE(report.fits);
  const auto find = [&](const std::string& text) -> const PlannedChange* {
    for (const PlannedChange& change : report.changes) {
      if (change.arguments.find(text) != std::string::npos) return &change;
    }
    return nullptr;
  };
  const PlannedChange* beams = find("--num_beams");
  ASSERT_NE(beams, nullptr) << report.refusal;
  const PlannedChange* batch = find("--per_device_eval_batch_size");
  ASSERT_NE(batch, nullptr) << report.refusal;
  ASSERT_NE(find("--max_new_tokens"), nullptr) << report.refusal;
  Arguments changed = arguments;
  changed.num_beams = std::stoll(beams->arguments.substr(beams->arguments.find(' ') + 1));
  EXPECT_EQ(plan_generation(changed, 256).total_bytes, beams->total_bytes);
  changed = arguments;
  changed.per_device_eval_batch_size = std::stoll(batch->arguments.substr(batch->arguments.find(' ') + 1));
  EXPECT_EQ(plan_generation(changed, 256).total_bytes, batch->total_bytes);
  EXPECT_NE(report.refusal.find("estimated time per new token"), std::string::npos) << report.refusal;
}

TEST(PlanGeneration, ContradictionsAreRefused) {
  const auto error_of = [](const Arguments& arguments, int64_t prompt_tokens) -> std::string {
    try {
      static_cast<void>(plan_generation(arguments, prompt_tokens));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "no error";
  };
  Arguments arguments = arguments_for(1, 1000);
  arguments.config_name = "gpt2";
  EXPECT_NE(error_of(arguments, 64).find("has room for 960"), std::string::npos);
  EXPECT_NE(error_of(arguments, 2000).find("2000 tokens and the model has 1024 positions"),
            std::string::npos);
  EXPECT_EQ(error_of(arguments, 0), "no error");
  arguments.dataset_name = "dummy";
  EXPECT_NE(error_of(arguments, 64).find("--dummy_seq_length 64 instead"), std::string::npos);
  arguments = arguments_for(1, 10);
  arguments.config_name = "bert-base-uncased";
  EXPECT_NE(error_of(arguments, 64).find("causal"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
