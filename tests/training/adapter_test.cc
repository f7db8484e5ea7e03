// Tests runs that train a part of a model or adapters: their memory, the files that they save, and resuming
// bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plimsoll/merge.h"
#include "plimsoll/plan.h"
#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;
using testing::write_tiny_base;

Arguments lora_arguments(const std::string& base, const std::string& output_dir) {
  Arguments arguments = testing::tiny_arguments("", output_dir);
  arguments.model_name_or_path = base;
  arguments.lora_r = 2;
  arguments.lora_alpha = 3.0;
  arguments.lora_dropout = 0.1;
  return arguments;
}

void expect_resumes(const Arguments& whole, const TestFolder& folder, const std::vector<std::string>& saved) {
  const TrainOutput expected = Trainer(whole).train();
  ASSERT_EQ(expected.step, 12);
  for (const int step : {1, 6, 11}) {
    SCOPED_TRACE("resumed after step " + std::to_string(step));
    Arguments rest = whole;
    rest.output_dir = folder.path("rest" + std::to_string(step));
    rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-" + std::to_string(step);
    EXPECT_EQ(stable_log(Trainer(rest).train().log_history), stable_log(expected.log_history));
    for (const std::string& file : saved) {
      const std::string wanted = read_file(whole.output_dir + "/checkpoint-12/" + file);
      ASSERT_FALSE(wanted.empty()) << file;
      EXPECT_TRUE(read_file(rest.output_dir + "/checkpoint-12/" + file) == wanted) << file;
    }
  }
}

TEST(Freeze, ResumesBitForBit) {
  const TestFolder folder("freeze_resume");
  Arguments whole = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("whole"));
  whole.freeze = {"bert.embeddings.*", "bert.encoder.layer.0.*"};
  expect_resumes(whole, folder, {"model.safetensors", "optimizer.safetensors"});
}

TEST(Lora, ResumesBitForBit) {
  const TestFolder folder("lora_resume");
  const std::string base = write_tiny_base(folder);
  expect_resumes(lora_arguments(base, folder.path("whole")), folder,
                 {"adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors"});
  EXPECT_FALSE(std::filesystem::exists(folder.path("whole") + "/checkpoint-12/model.safetensors"));
}

TEST(Lora, ResumesBitForBitBesideABaseInFourBits) {
  const TestFolder folder("qlora_resume");
  const std::string base = write_tiny_base(folder);
  Arguments arguments = lora_arguments(base, folder.path("whole"));
  arguments.load_in_4bit = true;
  arguments.bnb_4bit_use_double_quant = true;
  expect_resumes(arguments, folder, {"adapter_model.safetensors", "optimizer.safetensors"});
}

// In the plan, a base model that is quantized to 4 bits must need 4 bits per weight and one byte per 64 weights for
// scales; one that is quantized to 8 bits must need 8 bits per weight and four bytes per row for scales.
TEST(Lora, PlansTheBaseInItsBits) {
  const TestFolder folder("qlora_plan");
  const std::string base = write_tiny_base(folder);
  const auto weights_of = [&](const Arguments& arguments) {
    const std::string json = Trainer(arguments).plan().json;
    const size_t at = json.find("\"model_weights\": ");
    EXPECT_NE(at, std::string::npos);
    return std::stoll(json.substr(at + 17));
  };
  Arguments arguments = lora_arguments(base, folder.path("run"));
  const int64_t whole = weights_of(arguments);
  arguments.load_in_8bit = true;
  const int64_t eight = weights_of(arguments);
  arguments.load_in_8bit = false;
  arguments.load_in_4bit = true;
  const int64_t four = weights_of(arguments);
  // The base model has 2 layers with 4 * 16 * 16 + 2 * 16 * 32 weights each, and a pooler with 16 * 16. The size of
  // each array is rounded up to a multiple of 64 bytes.
  const int64_t numbers = 2 * (4 * 16 * 16 + 2 * 16 * 32) + 16 * 16;
  // On a GPU, the size of each array is rounded up to a multiple of 256 bytes. The bound allows this for an
  // array of values and one of scales.
  const int64_t places = std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr ? 2 * 256 : 0;
  EXPECT_LT(eight, whole - 3 * numbers + 9 * 512);
  EXPECT_LT(four, whole - 3 * numbers + 9 * places);
  EXPECT_LT(four, eight);
  // If one of the two layers is not quantized, each of its weights needs 4 bytes instead of half a byte, but no scales.
  arguments.llm_int8_skip_modules = {"encoder.layer.0", "classifier"};
  const int64_t layer = 4 * 16 * 16 + 2 * 16 * 32;
  EXPECT_GT(weights_of(arguments), four + 3 * layer - 4 * places);
  EXPECT_LT(weights_of(arguments), four + 4 * layer);
}

TEST(Lora, ResumesBitForBitBesideABaseThatIsInEightBitsInPart) {
  const TestFolder folder("lora_part_resume");
  const std::string base = write_tiny_base(folder);
  Arguments arguments = lora_arguments(base, folder.path("whole"));
  arguments.load_in_8bit = true;
  arguments.llm_int8_skip_modules = {"attention.self"};
  arguments.layers_to_transform = {"1"};
  expect_resumes(arguments, folder,
                 {"adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors"});
}

TEST(Lora, GoesOnFromASavedAdapterAndMerges) {
  const TestFolder folder("lora_goes_on");
  const std::string base = write_tiny_base(folder);
  Arguments arguments = lora_arguments(base, folder.path("first"));
  arguments.save_strategy = "no";
  Trainer first(arguments);
  first.train();
  first.save_model(folder.path("adapter"));
  const auto loss_of = [&](const std::string& model, const std::string& adapter) {
    Arguments more = testing::tiny_arguments("", folder.path("more"));
    std::filesystem::remove_all(more.output_dir);
    more.model_name_or_path = model;
    more.adapter_name_or_path = adapter;
    more.save_strategy = "no";
    more.max_steps = 1;
    more.learning_rate = 0.0;
    more.config_overrides = {{"hidden_dropout_prob", "0"}, {"attention_probs_dropout_prob", "0"}};
    return Trainer(more).train().metrics.at("train_loss");
  };
  const std::string adapter = folder.path("adapter");
  EXPECT_EQ(loss_of(adapter, ""), loss_of(base, adapter));
  EXPECT_NE(loss_of(base, ""), loss_of(base, adapter));
  merge_adapter({.adapter = adapter, .output_dir = folder.path("merged")});
  // The adapter and the merged model must give slightly different losses: merging rounds each weight once more,
  // and only the adapter uses dropout.
  Arguments plain = testing::tiny_arguments("", folder.path("plain"));
  plain.model_name_or_path = folder.path("merged");
  plain.save_strategy = "no";
  plain.max_steps = 1;
  Trainer merged(plain);
  EXPECT_EQ(merged.num_parameters(),
            Trainer(lora_arguments(base, folder.path("x"))).num_parameters() - 2 * 2 * 64);
}

// The checkpoint of a masked language model has no pooler, so a classifier initializes it randomly, from the
// seed. A run with adapters must train it and save it with the adapter, because an evaluation does not know
// this seed.
TEST(Lora, SavesTheModulesThatNoFileProvides) {
  const TestFolder folder("lora_new_modules");
  const std::string base = write_tiny_base(folder);
  std::string weights = read_file(base + "/model.safetensors");
  for (const std::string name : {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}) {
    const size_t at = weights.find(name);
    ASSERT_NE(at, std::string::npos);
    weights.replace(at, 4, "gone");
  }
  std::ofstream(base + "/model.safetensors", std::ios::binary) << weights;
  Arguments arguments = lora_arguments(base, folder.path("run"));
  arguments.save_strategy = "no";
  arguments.seed = 7;
  Trainer trainer(arguments);
  trainer.train();
  const std::string adapter = folder.path("adapter");
  trainer.save_model(adapter);
  EXPECT_NE(read_file(adapter + "/adapter_config.json").find("\"bert.pooler.dense\""), std::string::npos);
  EXPECT_NE(
      read_file(adapter + "/adapter_model.safetensors").find("base_model.model.bert.pooler.dense.weight"),
      std::string::npos);
  const auto loss_of = [&](const std::string& model, int seed) {
    Arguments more = testing::tiny_arguments("", folder.path("more"));
    std::filesystem::remove_all(more.output_dir);
    more.model_name_or_path = model;
    more.save_strategy = "no";
    more.max_steps = 1;
    more.learning_rate = 0.0;
    more.train_sampling_strategy = "sequential";
    more.seed = seed;
    more.config_overrides = {{"hidden_dropout_prob", "0"}, {"attention_probs_dropout_prob", "0"}};
    return Trainer(more).train().metrics.at("train_loss");
  };
  merge_adapter({.adapter = adapter, .output_dir = folder.path("merged")});
  // Dummy data depends on the seed, so the adapter and the merged model are compared with the same seed.
  for (const int seed : {1, 2})
    EXPECT_NEAR(loss_of(adapter, seed), loss_of(folder.path("merged"), seed), 1e-6);
}

TEST(Lora, HoldsStatesOfWhatIsTrainedAlone) {
  const TestFolder folder("lora_holds");
  const std::string base = write_tiny_base(folder);
  Arguments arguments = lora_arguments(base, folder.path("run"));
  arguments.gradient_accumulation_steps = 1;
  arguments.save_strategy = "no";
  Trainer trainer(arguments);
  trainer.train();
  EXPECT_GT(trainer.memory().arena_high_water_bytes, 0);
  EXPECT_LE(trainer.memory().arena_high_water_bytes, trainer.memory().arena_bytes);
  EXPECT_NE(trainer.plan().table.find(" trainable ("), std::string::npos) << trainer.plan().table;
  // Trained parameters: in each of two layers, for query and value, the matrices A and B of 2 x 16 elements;
  // and the classifier for two labels.
  const int64_t trained = 2 * 2 * 2 * 32 + 2 * 16 + 2;
  EXPECT_NE(trainer.plan().json.find("\"num_trainable_parameters\": " + std::to_string(trained)),
            std::string::npos);
}

std::string message_of(const Arguments& arguments, ErrorCode code) {
  try {
    Trainer(arguments).train();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return {};
}

TEST(Lora, SaysWhatIsWrong) {
  const TestFolder folder("lora_wrong");
  const std::string base = write_tiny_base(folder);
  Arguments arguments = lora_arguments(base, folder.path("run"));
  arguments.lora_target_modules = {"quary"};
  const std::string unknown = message_of(arguments, ErrorCode::kUsage);
  EXPECT_NE(unknown.find("the nearest names are query"), std::string::npos) << unknown;
  arguments.lora_target_modules = {"word_embeddings"};
  const std::string table = message_of(arguments, ErrorCode::kUsage);
  EXPECT_NE(table.find("it is not a linear module"), std::string::npos) << table;
  arguments.lora_target_modules = {};
  arguments.lora_bias = "all";
  EXPECT_NE(message_of(arguments, ErrorCode::kUsage).find("--lora_bias all"), std::string::npos);
  arguments.lora_bias = "none";
  arguments.load_in_4bit = true;
  arguments.load_in_8bit = true;
  EXPECT_NE(message_of(arguments, ErrorCode::kUsage).find("exclude each other"), std::string::npos);
  arguments.load_in_8bit = false;
  arguments.bnb_4bit_compute_dtype = "bfloat16";
  EXPECT_NE(message_of(arguments, ErrorCode::kUsage).find("--bf16"), std::string::npos);
  arguments.bnb_4bit_compute_dtype = "auto";
  arguments.load_in_4bit = false;
  arguments.lora_r = 0;
  EXPECT_NE(message_of(arguments, ErrorCode::kUsage).find("lora_r"), std::string::npos);
  arguments.lora_r = 2;
  arguments.max_steps = 1;
  Trainer trainer(arguments);
  trainer.train();
  trainer.save_model(folder.path("adapter"));

  // The adapter must not be loaded into a base model with another hidden size.
  std::filesystem::create_directories(folder.path("other"));
  std::ofstream(folder.path("other") + "/config.json")
      << R"({"model_type": "bert", "vocab_size": 150, "hidden_size": 8, "num_hidden_layers": 2,)"
      << R"( "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32})";
  Arguments other = testing::tiny_arguments(folder.path("other"), folder.path("other_run"));
  other.save_strategy = "no";
  Trainer(other).save_model(folder.path("other_base"));
  other = testing::tiny_arguments("", folder.path("wrong"));
  other.model_name_or_path = folder.path("other_base");
  other.adapter_name_or_path = folder.path("adapter");
  std::filesystem::remove(folder.path("adapter") + "/config.json");
  const std::string shapes = message_of(other, ErrorCode::kBadData);
  EXPECT_NE(shapes.find("the tensor 'base_model.model."), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("[2, 16], but this model needs [2, 8]"), std::string::npos) << shapes;

  // A run that trains whole models must not resume from a checkpoint of adapters, and the reverse.
  Arguments whole = testing::tiny_arguments("", folder.path("whole"));
  whole.model_name_or_path = base;
  whole.resume_from_checkpoint = folder.path("run") + "/checkpoint-1";
  const std::string adapters = message_of(whole, ErrorCode::kBadData);
  EXPECT_NE(adapters.find("--lora_r"), std::string::npos) << adapters;
}

}  // namespace
}  // namespace plimsoll
