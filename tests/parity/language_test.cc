// Compares causal and masked language modelling, and training on conversations, with transformers, step by step.
// make_language_fixtures.py, make_masked_fixtures.py and make_chat_fixtures.py describe the cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "plimsoll/trainer.h"
#include "tests/parity/fixtures.h"
#include "tests/parity/measures.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using test::ScratchFolder;
using testing::column;
using testing::kTimesReference;
using testing::relative_error;

const std::string& folder() {
  static const std::string path = PLIMSOLL_SOURCE_DIR "/tests/parity";
  return path;
}

const json& fixtures() {
  static const json all = json::parse(std::ifstream(folder() + "/language_models.json"));
  return all;
}

const json& masked_fixtures() {
  static const json all = json::parse(std::ifstream(folder() + "/masked_models.json"));
  return all;
}

const json& chat_fixtures() {
  static const json all = json::parse(std::ifstream(folder() + "/chat_models.json"));
  return all;
}

// Returns the arguments that all cases share, for a run of as many steps as the reference has losses (`steps`).
Arguments arguments_of_steps(const std::string& model, const std::string& output, int64_t steps) {
  Arguments arguments;
  arguments.model_name_or_path = folder() + "/models/" + model;
  arguments.train_file = arguments.validation_file = folder() + "/data/text.txt";
  arguments.output_dir = output;
  arguments.max_steps = steps;
  arguments.logging_steps = 1;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = static_cast<double>(arguments.max_steps);
  arguments.save_strategy = "no";
  arguments.learning_rate = 1e-3;
  arguments.lr_scheduler_type = "constant";
  arguments.train_sampling_strategy = "sequential";
  arguments.num_threads = 2;
  return arguments;
}

Arguments arguments_of(const std::string& model, const std::string& output) {
  Arguments arguments = arguments_of_steps(model, output, std::ssize(fixtures().at("cases")[0].at("loss")));
  arguments.block_size = fixtures().at("block_size").get<int64_t>();
  arguments.per_device_train_batch_size = fixtures().at("batch_size").get<int64_t>();
  if (model.starts_with("gpt2"))
    arguments.config_overrides = {{"resid_pdrop", "0"}, {"embd_pdrop", "0"}, {"attn_pdrop", "0"}};
  return arguments;
}

// Returns the unit in which the limit of an error is expressed: the error of the reference's fp32 run, but at
// least 2^-24, half a unit in the last place of fp32, because the reference rounds the losses that it stores to
// fp32.
double unit_of(const json& item, const char* key) {
  return std::max(item.at(key).get<double>(), 0x1p-24);
}

// Compares the losses of all training steps, and the loss of the evaluation at the end, with the reference.
void expect_losses(const TrainOutput& output, const json& item) {
  EXPECT_LE(relative_error(column(output, "loss", "loss"), item.at("loss")),
            kTimesReference * unit_of(item, "fp32_loss_error"));
  const double loss = column(output, "eval_loss", "eval_loss").back();
  const double expected = item.at("eval_loss");
  EXPECT_LE(std::fabs(loss - expected) / expected, kTimesReference * unit_of(item, "fp32_eval_loss_error"));
  EXPECT_NEAR(column(output, "eval_loss", "eval_accuracy").back(), item.at("accuracy").get<double>(),
              item.at("fp32_accuracy_error").get<double>() + 1e-12);
  EXPECT_NEAR(column(output, "eval_loss", "eval_perplexity").back(), std::exp(loss), 1e-9 * std::exp(loss));
}

TEST(LanguageParity, EveryStepAndTheEvaluationAfterTwenty) {
  ASSERT_EQ(fixtures().at("cases").size(), 4u);
  for (const json& item : fixtures().at("cases")) {
    for (const char* chunked : {"never", "always"}) {
      SCOPED_TRACE(item.at("model").get<std::string>() + ", chunked loss " + chunked);
      const ScratchFolder scratch;
      Arguments arguments = arguments_of(item.at("model"), scratch.path());
      arguments.chunked_loss = chunked;
      Trainer trainer(arguments);
      expect_losses(trainer.train(), item);
    }
  }
}

// An evaluation batch may have no label at all: the last block of a causal model may consist of one token. The
// loss must be the mean over all labels, however they are divided into batches, and perplexity must be its
// exponential.
TEST(LanguageParity, ABatchWithoutALabelHasNoWeight) {
  const ScratchFolder scratch;
  const std::string text = scratch.path() + "/text.txt";
  // Nine tokens: [CLS], seven words and [SEP].
  std::ofstream(text) << "the kernel module is a small library\n";
  const auto evaluate = [&](int64_t batch_size) {
    Arguments arguments = arguments_of(fixtures().at("cases")[1].at("model"), scratch.path() + "/run");
    arguments.train_file.clear();
    arguments.validation_file = text;
    arguments.keep_linebreaks = false;
    arguments.block_size = 4;
    arguments.per_device_eval_batch_size = batch_size;
    Trainer trainer(arguments, Task::kEvaluate);
    return trainer.evaluate();
  };
  const MetricMap whole = evaluate(3);
  const MetricMap single = evaluate(1);
  EXPECT_NEAR(single.at("eval_loss"), whole.at("eval_loss"), 1e-6 * whole.at("eval_loss"));
  EXPECT_NEAR(single.at("eval_perplexity"), std::exp(single.at("eval_loss")),
              1e-9 * single.at("eval_perplexity"));
}

// Returns the sorted names of the tensors of a .safetensors file.
std::vector<std::string> tensor_names(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, values] : testing::read_tensors(path)) names.push_back(name);
  return names;
}

// Trains for more than one epoch, because the masks differ between epochs. The architecture class that the
// checkpoint names and the text file must select masked language modelling. The saved model must have the same
// tensors as the checkpoint.
TEST(MaskedParity, EveryStepAndTheEvaluationAtTheEnd) {
  ASSERT_EQ(masked_fixtures().at("cases").size(), 9u);
  for (const json& item : masked_fixtures().at("cases")) {
    for (const char* chunked : {"never", "always"}) {
      const std::string model = item.at("model");
      SCOPED_TRACE(model + ", chunked loss " + chunked);
      const ScratchFolder scratch;
      Arguments arguments = arguments_of_steps(model, scratch.path(), std::ssize(item.at("loss")));
      arguments.max_seq_length = masked_fixtures().at("length").get<int64_t>();
      arguments.per_device_train_batch_size = masked_fixtures().at("batch_size").get<int64_t>();
      const json& settings = item.at("settings");
      arguments.mlm_probability = settings.value("mlm_probability", arguments.mlm_probability);
      arguments.line_by_line = settings.value("line_by_line", false);
      arguments.gradient_accumulation_steps = settings.value("gradient_accumulation_steps", int64_t{1});
      if (settings.contains("data_seed")) arguments.data_seed = settings.at("data_seed").get<int64_t>();
      arguments.chunked_loss = chunked;
      Trainer trainer(arguments);
      expect_losses(trainer.train(), item);
      trainer.save_model(scratch.path());
      const std::string file = "/model.safetensors";
      EXPECT_EQ(tensor_names(scratch.path() + file), tensor_names(arguments.model_name_or_path + file));
      const json saved = json::parse(std::ifstream(scratch.path() + "/config.json"));
      const json before = json::parse(std::ifstream(arguments.model_name_or_path + "/config.json"));
      EXPECT_EQ(saved.at("architectures"), before.at("architectures"));
      EXPECT_EQ(saved.at("tie_word_embeddings"), before.at("tie_word_embeddings"));
    }
  }
}

// A document in a packed block must have the same loss as alone, so packed and single documents must give the
// same total loss.
TEST(LanguageParity, APackedDocumentHasTheLossThatItHasAlone) {
  const std::string model = fixtures().at("cases")[1].at("model");
  const auto evaluate = [&](bool packs, int64_t block_size) {
    const ScratchFolder scratch;
    Arguments arguments = arguments_of(model, scratch.path());
    arguments.train_file.clear();
    arguments.packing = packs;
    arguments.block_size = block_size;
    Trainer trainer(arguments, Task::kEvaluate);
    return trainer.evaluate().at("eval_loss");
  };
  // Every document is shorter than a block of 64 tokens and is therefore never split. In packed blocks a
  // document attends only to itself, so the loss must not depend on the block size. In unpacked blocks it also
  // attends to the documents before it, so the loss differs.
  const double packed = evaluate(true, 64);
  EXPECT_NEAR(evaluate(true, 40), packed, 1e-6 * packed);
  EXPECT_GT(std::fabs(evaluate(false, 64) - packed), 1e-3 * packed)
      << "documents see each other without packing";
}

// Compares the loss of a sliding window, as on Hugging Face's page on perplexity, with one computed in PyTorch:
// every token counts once, and is predicted from the tokens of its window.
TEST(LanguageParity, OverlappingBlocksHaveTheLossOfASlidingWindow) {
  ASSERT_EQ(fixtures().at("strided").size(), 24u);
  for (const json& item : fixtures().at("strided")) {
    const bool is_first = item.at("model") == fixtures().at("strided")[0].at("model");
    for (const int64_t batch : {1, 7}) {
      if (batch == 1 && !is_first) continue;
      // Tests stride 1, which makes a block per token and takes seconds, with one model and one batch size only.
      if (item.at("stride") == 1 && (batch == 1 || !is_first)) continue;
      SCOPED_TRACE(item.dump() + ", batches of " + std::to_string(batch));
      const ScratchFolder scratch;
      Arguments arguments = arguments_of(item.at("model"), scratch.path());
      arguments.train_file.clear();
      arguments.block_size = item.at("block_size").get<int64_t>();
      arguments.stride = item.at("stride").get<int64_t>();
      arguments.per_device_eval_batch_size = batch;
      Trainer trainer(arguments, Task::kEvaluate);
      const MetricMap metrics = trainer.evaluate();
      const double expected = item.at("loss");
      EXPECT_LE(std::fabs(metrics.at("eval_loss") - expected) / expected,
                kTimesReference * unit_of(item, "fp32_loss_error"));
      EXPECT_NEAR(metrics.at("eval_perplexity"), std::exp(metrics.at("eval_loss")),
                  1e-9 * metrics.at("eval_perplexity"));
    }
  }
}

// Copies a model whose tokenizer names an end-of-text token.
std::string model_with_eos(const std::string& model, const ScratchFolder& scratch) {
  const std::string copy = scratch.path() + "/model";
  std::filesystem::copy(folder() + "/models/" + model, copy);
  json config = json::parse(std::ifstream(copy + "/tokenizer_config.json"));
  config["eos_token"] = "[SEP]";
  std::ofstream(copy + "/tokenizer_config.json") << config.dump();
  return copy;
}

Arguments arguments_of_chat(const json& item, const ScratchFolder& scratch) {
  const std::string model = item.at("model");
  Arguments arguments = arguments_of_steps(model, scratch.path() + "/run", std::ssize(item.at("loss")));
  arguments.model_name_or_path = model_with_eos(model, scratch);
  arguments.train_file = arguments.validation_file =
      folder() + "/data/" + item.at("data").get<std::string>() + ".jsonl";
  arguments.chat_template = "chatml";
  arguments.block_size = chat_fixtures().at("block_size").get<int64_t>();
  arguments.per_device_train_batch_size = chat_fixtures().at("batch_size").get<int64_t>();
  arguments.gradient_accumulation_steps = chat_fixtures().at("accumulation").get<int64_t>();
  if (model.starts_with("gpt2"))
    arguments.config_overrides = {{"resid_pdrop", "0"}, {"embd_pdrop", "0"}, {"attn_pdrop", "0"}};
  return arguments;
}

// The loss of a step is the mean over the labels of all its micro-batches, which have different numbers of
// labels.
TEST(ChatParity, EveryStepAndTheEvaluationAtTheEnd) {
  ASSERT_EQ(chat_fixtures().at("cases").size(), 3u);
  for (const json& item : chat_fixtures().at("cases")) {
    for (const char* chunked : {"never", "always"}) {
      SCOPED_TRACE(item.at("model").get<std::string>() + ", " + item.at("data").get<std::string>() +
                   ", chunked loss " + chunked);
      const ScratchFolder scratch;
      Arguments arguments = arguments_of_chat(item, scratch);
      arguments.chunked_loss = chunked;
      Trainer trainer(arguments);
      expect_losses(trainer.train(), item);
    }
  }
}

// A conversation in a packed block must have the same loss as alone, also if its tokens are read from the
// cache.
TEST(ChatParity, PackedConversationsHaveTheLossesThatTheyHaveAlone) {
  const json& item = chat_fixtures().at("cases")[0];
  const auto evaluate = [&](bool packs, const std::string& cache) {
    const ScratchFolder scratch;
    Arguments arguments = arguments_of_chat(item, scratch);
    arguments.train_file.clear();
    arguments.packing = packs;
    arguments.cache_dir = cache;
    Trainer trainer(arguments, Task::kEvaluate);
    return trainer.evaluate().at("eval_loss");
  };
  const ScratchFolder cache;
  const double alone = evaluate(false, "");
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_NEAR(evaluate(true, cache.path()), alone, 1e-6 * alone);
    EXPECT_EQ(evaluate(false, cache.path()), alone);
  }
  EXPECT_NE(std::filesystem::directory_iterator(cache.path()), std::filesystem::directory_iterator());
}

// A resumed training on packed conversations must have the same losses as an uninterrupted one.
TEST(ChatParity, ResumesWithTheSameLosses) {
  const json& item = chat_fixtures().at("cases")[0];
  const ScratchFolder scratch;
  Arguments arguments = arguments_of_chat(item, scratch);
  arguments.packing = true;
  arguments.per_device_train_batch_size = 1;
  arguments.train_sampling_strategy = "random";
  arguments.max_steps = 6;
  arguments.eval_strategy = "no";
  arguments.save_strategy = "steps";
  arguments.save_steps = 3;
  const std::vector<double> whole = column(Trainer(arguments).train(), "loss", "loss");
  arguments.resume_from_checkpoint = arguments.output_dir + "/checkpoint-3";
  const std::vector<double> resumed = column(Trainer(arguments).train(), "loss", "loss");
  ASSERT_GE(resumed.size(), 3u);
  for (size_t i = 1; i <= 3; ++i) EXPECT_EQ(resumed[resumed.size() - i], whole[whole.size() - i]);
}

}  // namespace
}  // namespace plimsoll
