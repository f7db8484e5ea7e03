// Compares causal language modelling with transformers, step by step. make_language_fixtures.py describes the cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

Arguments arguments_of(const std::string& model, const std::string& output) {
  Arguments arguments;
  arguments.model_name_or_path = folder() + "/models/" + model;
  arguments.train_file = arguments.validation_file = folder() + "/data/text.txt";
  arguments.output_dir = output;
  arguments.block_size = fixtures().at("block_size").get<int64_t>();
  arguments.per_device_train_batch_size = fixtures().at("batch_size").get<int64_t>();
  arguments.max_steps = std::ssize(fixtures().at("cases")[0].at("loss"));
  arguments.logging_steps = 1;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = static_cast<double>(arguments.max_steps);
  arguments.save_strategy = "no";
  arguments.learning_rate = 1e-3;
  arguments.lr_scheduler_type = "constant";
  arguments.train_sampling_strategy = "sequential";
  arguments.num_threads = 2;
  if (model.starts_with("gpt2"))
    arguments.config_overrides = {{"resid_pdrop", "0"}, {"embd_pdrop", "0"}, {"attn_pdrop", "0"}};
  return arguments;
}

// A loss that is stored as an fp32 number is at least half a unit in its last place away.
double unit_of(const json& item, const char* key) {
  return std::max(item.at(key).get<double>(), 0x1p-24);
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
      const TrainOutput output = trainer.train();
      EXPECT_LE(relative_error(column(output, "loss", "loss"), item.at("loss")),
                kTimesReference * unit_of(item, "fp32_loss_error"));
      const double loss = column(output, "eval_loss", "eval_loss").back();
      const double expected = item.at("eval_loss");
      EXPECT_LE(std::fabs(loss - expected) / expected,
                kTimesReference * unit_of(item, "fp32_eval_loss_error"));
      EXPECT_NEAR(column(output, "eval_loss", "eval_accuracy").back(), item.at("accuracy").get<double>(),
                  item.at("fp32_accuracy_error").get<double>() + 1e-12);
      EXPECT_NEAR(column(output, "eval_loss", "eval_perplexity").back(), std::exp(loss),
                  1e-9 * std::exp(loss));
    }
  }
}

// The loss of a document in a packed block is the loss that it has alone: packed and single documents give the same sum.
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
  // Every line is shorter than a block, so blocks of 64 hold whole documents in both runs, and other blocks other neighbours.
  const double packed = evaluate(true, 64);
  EXPECT_NEAR(evaluate(true, 40), packed, 1e-6 * packed);
  EXPECT_GT(std::fabs(evaluate(false, 64) - packed), 1e-3 * packed)
      << "documents see each other without packing";
}

}  // namespace
}  // namespace plimsoll
