// Tests checkpoints of a custom training loop. A loop that continues from a checkpoint must make the same steps bit for
// bit. If a folder is not a checkpoint of this run, loading it must throw one clear exception.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Returns arguments with dropout, random order and two micro-batches per step.
Arguments arguments_of(const testing::TestFolder& folder, const std::string& output) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path(output));
  arguments.save_strategy = "no";
  return arguments;
}

std::vector<double> run_steps(Trainer& trainer, int64_t end) {
  std::vector<double> numbers;
  while (trainer.step() < end) {
    Batch batch = trainer.next_batch();
    numbers.push_back(trainer.forward_backward(batch));
    if (!batch.last_in_epoch()) numbers.push_back(trainer.forward_backward(trainer.next_batch()));
    numbers.push_back(trainer.update(1e-3 / static_cast<double>(trainer.step() + 1)));
  }
  return numbers;
}

std::string weights_of(Trainer& trainer, const testing::TestFolder& folder) {
  trainer.save_model(folder.path("saved"));
  std::string text = testing::read_file(folder.path("saved") + "/model.safetensors");
  fs::remove_all(folder.path("saved"));
  return text;
}

// The cases use optimizers with different states, and different numbers of workers, which load batches in advance. Each case saves after
// a different step and continues from there to step 10. Step 5 of the first case is within the second epoch.
TEST(OwnCheckpoint, ContinuesBitForBit) {
  struct Case {
    const char* optim;
    int64_t workers;
    int64_t saved_at;
  };
  for (const Case& c : {Case{"adamw_torch", 0, 5}, Case{"adamw_8bit", 2, 3}, Case{"adafactor", 0, 4},
                        Case{"lion_32bit", 1, 1}, Case{"adagrad", 0, 8}}) {
    SCOPED_TRACE(c.optim);
    const testing::TestFolder folder("own_checkpoint");
    const auto made = [&](const std::string& output) {
      Arguments arguments = arguments_of(folder, output);
      arguments.optim = c.optim;
      arguments.dataloader_num_workers = c.workers;
      return arguments;
    };
    Trainer whole(made("whole"));
    run_steps(whole, c.saved_at);
    const std::vector<double> expected = run_steps(whole, 10);
    std::string saved;
    {
      Trainer first(made("part"));
      run_steps(first, c.saved_at);
      // This batch is made but not used in a step, so the checkpoint must contain the state from before it was made.
      first.next_batch();
      saved = first.save_checkpoint();
      EXPECT_EQ(fs::path(saved).filename(), "checkpoint-" + std::to_string(c.saved_at));
    }
    Trainer second(made("part"));
    EXPECT_TRUE(second.load_checkpoint(saved).empty());
    EXPECT_EQ(second.step(), c.saved_at);
    EXPECT_EQ(run_steps(second, 10), expected);
    EXPECT_EQ(weights_of(second, folder), weights_of(whole, folder));
    EXPECT_EQ(fs::path(second.save_checkpoint()).filename(), "checkpoint-10") << "the run keeps its identity";
    // The Trainer that saved the checkpoint may load it too.
    second.load_checkpoint(saved);
    EXPECT_EQ(run_steps(second, 10), expected);
  }
}

TEST(OwnCheckpoint, TrainContinuesFromOne) {
  const testing::TestFolder folder("own_to_train");
  Arguments arguments = arguments_of(folder, "out");
  std::string saved;
  {
    Trainer trainer(arguments);
    run_steps(trainer, 4);
    saved = trainer.save_checkpoint();
  }
  arguments.resume_from_checkpoint = saved;
  Trainer resumed(arguments);
  const TrainOutput output = resumed.train();
  EXPECT_EQ(output.step, 12);
  // A custom loop can also continue from a checkpoint of train().
  Arguments saving = arguments_of(folder, "train");
  saving.save_strategy = "steps";
  saving.save_steps = 6;
  Trainer trained(saving);
  trained.train();
  Trainer loop(arguments_of(folder, "loop"));
  loop.load_checkpoint(folder.path("train") + "/checkpoint-6");
  EXPECT_EQ(loop.step(), 6);
  run_steps(loop, 7);
  EXPECT_TRUE(fs::exists(loop.save_checkpoint() + "/optimizer.safetensors"));
}

TEST(OwnCheckpoint, KeepsTheNumberThatWasAskedFor) {
  const testing::TestFolder folder("own_limit");
  Arguments arguments = arguments_of(folder, "out");
  arguments.save_total_limit = 2;
  Trainer trainer(arguments);
  for (const int64_t step : {1, 2, 3, 4}) {
    run_steps(trainer, step);
    trainer.save_checkpoint();
  }
  EXPECT_FALSE(fs::exists(folder.path("out") + "/checkpoint-2"));
  EXPECT_TRUE(fs::exists(folder.path("out") + "/checkpoint-3"));
  EXPECT_EQ(fs::read_symlink(folder.path("out") + "/last"), "checkpoint-4");
}

TEST(OwnCheckpoint, WrongFoldersAndMomentsAreRefused) {
  const testing::TestFolder folder("own_wrong");
  Trainer trainer(arguments_of(folder, "out"));
  run_steps(trainer, 2);
  const std::string saved = trainer.save_checkpoint();
  const auto expect = [&](const std::function<void()>& call, ErrorCode code, const char* words) {
    const std::string message = testing::refusal(call, code);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect([&] { trainer.load_checkpoint(folder.path("none")); }, ErrorCode::kBadData, "load_checkpoint()");
  expect([&] { trainer.load_checkpoint(folder.path("model")); }, ErrorCode::kBadData, "load_checkpoint()");
  expect([&] { trainer.load_checkpoint(""); }, ErrorCode::kBadData, "load_checkpoint()");
  expect([&] { trainer.load_checkpoint(saved + "/config.json"); }, ErrorCode::kBadData, "load_checkpoint()");
  // Loading is refused for a checkpoint with a damaged file.
  fs::copy(saved, folder.path("damaged"), fs::copy_options::recursive);
  {
    std::fstream file(folder.path("damaged") + "/optimizer.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write("xxxx", 4);
  }
  expect([&] { trainer.load_checkpoint(folder.path("damaged")); }, ErrorCode::kBadData,
         "optimizer.safetensors");
  // The refused calls above must not have changed the state of the loop.
  EXPECT_EQ(trainer.step(), 2);
  const std::string weights = weights_of(trainer, folder);
  trainer.load_checkpoint(saved);
  EXPECT_EQ(weights_of(trainer, folder), weights);
  // Loading is refused between forward_backward() and update().
  trainer.forward_backward(trainer.next_batch());
  expect([&] { trainer.save_checkpoint(); }, ErrorCode::kUsage, "call update() first");
  expect([&] { trainer.load_checkpoint(saved); }, ErrorCode::kUsage, "call update() first");
  trainer.update(1e-3);
  // Loading is refused for a checkpoint of another optimizer, and for one that contains only the model.
  Arguments other = arguments_of(folder, "other");
  other.optim = "sgd";
  Trainer sgd(other);
  expect([&] { sgd.load_checkpoint(saved); }, ErrorCode::kBadData, "--optim");
  EXPECT_EQ(run_steps(sgd, 1).size(), 3U) << "the Trainer can be used afterwards";
  Arguments only_model = arguments_of(folder, "only");
  only_model.save_only_model = true;
  Trainer model_alone(only_model);
  run_steps(model_alone, 1);
  const std::string alone = model_alone.save_checkpoint();
  expect([&] { model_alone.load_checkpoint(alone); }, ErrorCode::kBadData, "");
  // A second run in the same folder must not overwrite the checkpoints of the first one.
  Trainer second(arguments_of(folder, "out"));
  run_steps(second, 2);
  expect([&] { second.save_checkpoint(); }, ErrorCode::kUsage, "--replace_checkpoints");
  EXPECT_TRUE(fs::exists(saved + "/model.safetensors"));
  Arguments evaluating = arguments_of(folder, "out");
  evaluating.config_name.clear();
  evaluating.model_name_or_path = saved;
  Trainer evaluation(evaluating, Task::kEvaluate);
  expect([&] { evaluation.save_checkpoint(); }, ErrorCode::kUsage, "Task::kTrain");
  expect([&] { evaluation.load_checkpoint(saved); }, ErrorCode::kUsage, "Task::kTrain");
}

}  // namespace
}  // namespace plimsoll
