// Tests a complete run with each optimizer: the loss falls, the run uses the planned memory, and it resumes
// with the same bits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;

struct OptimizerRun {
  std::string optim;
  KeyValues optim_args;
  double learning_rate;
  std::set<std::string> states;  // kinds of optimizer states that the checkpoint must contain
};

const std::vector<OptimizerRun>& runs() {
  static const std::vector<OptimizerRun> list = {
      {"adamw_torch", {}, 1e-3, {"adamw.m", "adamw.v"}},
      {"sgd", {{"momentum", "0.9"}}, 1e-2, {"sgd.momentum"}},
      {"adagrad", {{"lr_decay", "0.01"}}, 1e-2, {"adagrad.sum"}},
      {"lion_32bit", {}, 1e-4, {"lion.m"}},
      {"adafactor", {}, 1e-3, {"adafactor.row", "adafactor.column", "adafactor.v"}},
      {"adafactor",
       {{"scale_parameter", "True"}, {"relative_step", "True"}, {"warmup_init", "True"}, {"beta1", "0.9"}},
       1e-3,
       {"adafactor.row", "adafactor.column", "adafactor.v", "adafactor.m"}},
      {"adamw_8bit",
       {},
       1e-3,
       {"adamw_8bit.m", "adamw_8bit.m.absmax", "adamw_8bit.v", "adamw_8bit.v.absmax", "adamw.m", "adamw.v"}},
      {"lion_8bit", {}, 1e-4, {"lion_8bit.m", "lion_8bit.m.absmax", "lion.m"}},
      {"sgd_8bit",
       {{"momentum", "0.9"}, {"nesterov", "True"}},
       1e-2,
       {"sgd_8bit.momentum", "sgd_8bit.momentum.absmax", "sgd.momentum"}},
      {"adagrad_bnb_8bit", {}, 1e-2, {"adagrad_8bit.sum", "adagrad_8bit.sum.absmax", "adagrad.sum"}}};
  return list;
}

// Writes the configuration of a model that is wide enough for 8-bit states: every matrix of a layer has at
// least 4096 elements. Returns its folder.
std::string write_model(const TestFolder& folder) {
  std::filesystem::create_directories(folder.path("model"));
  std::ofstream(folder.path("model") + "/config.json")
      << R"({"model_type": "bert", "vocab_size": 150, "hidden_size": 64, "num_hidden_layers": 1,
             "num_attention_heads": 2, "intermediate_size": 96, "max_position_embeddings": 32})";
  return folder.path("model");
}

Arguments arguments_of(const OptimizerRun& run, const std::string& model, const std::string& output_dir) {
  Arguments arguments = testing::tiny_arguments(model, output_dir);
  arguments.optim = run.optim;
  arguments.optim_args = run.optim_args;
  arguments.learning_rate = run.learning_rate;
  arguments.weight_decay = 0.01;
  arguments.max_steps = 6;
  arguments.save_steps = 3;
  return arguments;
}

// Returns the kinds of optimizer states in a checkpoint: the parts before "/" of the tensor names in the header
// of the file.
std::set<std::string> states_in(const std::string& checkpoint) {
  const std::string text = read_file(checkpoint + "/optimizer.safetensors");
  std::set<std::string> kinds;
  size_t at = 0;
  const size_t end = text.find("}}");
  while ((at = text.find("\":{\"dtype\"", at)) != std::string::npos && at < end + 2) {
    const size_t open = text.rfind('"', at - 1);
    const std::string name = text.substr(open + 1, at - open - 1);
    kinds.insert(name.substr(0, name.find('/')));
    ++at;
  }
  return kinds;
}

TEST(Optimizers, EveryOneRunsWithinItsPlanAndResumesToTheSameBits) {
  const TestFolder folder("optimizers");
  const std::string model = write_model(folder);
  int index = 0;
  for (const OptimizerRun& run : runs()) {
    SCOPED_TRACE(run.optim + " " + std::to_string(index));
    const std::string name = "run" + std::to_string(index++);
    Trainer trainer(arguments_of(run, model, folder.path(name)));
    const TrainOutput whole = trainer.train();
    ASSERT_EQ(whole.step, 6);
    ASSERT_FALSE(whole.log_history.empty());
    // The last byte that a kernel wrote may be before the end of the arena, because the scratch memory there
    // need not be written completely.
    const MemoryFigures figures = trainer.memory();
    EXPECT_EQ(figures.arena_high_water_bytes, figures.arena_bytes);
    EXPECT_LE(figures.arena_written_bytes, figures.arena_bytes);
    EXPECT_GT(figures.arena_written_bytes, figures.arena_bytes - figures.arena_bytes / 8);
    EXPECT_EQ(states_in(folder.path(name) + "/checkpoint-6"), run.states);

    Arguments rest = arguments_of(run, model, folder.path(name + "_rest"));
    rest.resume_from_checkpoint = folder.path(name) + "/checkpoint-3";
    const TrainOutput resumed = Trainer(rest).train();
    EXPECT_EQ(stable_log(resumed.log_history), stable_log(whole.log_history));
    for (const char* file : {"/checkpoint-6/model.safetensors", "/checkpoint-6/optimizer.safetensors"}) {
      const std::string wanted = read_file(folder.path(name) + file);
      ASSERT_FALSE(wanted.empty());
      EXPECT_TRUE(read_file(rest.output_dir + file) == wanted) << file;
    }
  }
  EXPECT_EQ(index, 10);
}

TEST(Optimizers, EveryOneLowersTheLoss) {
  const TestFolder folder("optimizers_learn");
  const std::string model = write_model(folder);
  for (const OptimizerRun& run : runs()) {
    SCOPED_TRACE(run.optim);
    // Skips warmup_init, with which the learning rate starts at 1e-6, so that the loss would hardly change in
    // these steps.
    if (run.optim_args.contains("warmup_init")) continue;
    Arguments arguments = arguments_of(run, model, folder.path("run"));
    std::filesystem::remove_all(arguments.output_dir);
    arguments.max_steps = 20;
    arguments.save_strategy = "no";
    const TrainOutput output = Trainer(arguments).train();
    std::vector<double> losses;
    for (const LogRecord& record : output.log_history) {
      if (const auto loss = record.values.find("loss"); loss != record.values.end())
        losses.push_back(loss->second);
    }
    ASSERT_EQ(losses.size(), 20u);
    double early = 0.0, late = 0.0;
    for (size_t i = 0; i < 5; ++i) {
      early += losses[i];
      late += losses[15 + i];
    }
    EXPECT_LT(late, early) << run.optim;
  }
}

// With relative_step, Adafactor computes its learning rate itself. The log must contain that rate.
TEST(Optimizers, TheRelativeStepIsInTheLog) {
  const TestFolder folder("optimizers_relative");
  OptimizerRun run = runs()[5];
  run.optim_args.erase("warmup_init");
  Arguments arguments = arguments_of(run, write_model(folder), folder.path("run"));
  const TrainOutput output = Trainer(arguments).train();
  int checked = 0;
  for (const LogRecord& record : output.log_history) {
    if (!record.values.contains("loss")) continue;
    EXPECT_EQ(record.values.at("learning_rate"), 1e-2);
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

}  // namespace
}  // namespace plimsoll
