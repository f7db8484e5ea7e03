// Tests several runs in one output folder: without permission a run must not change the checkpoints of another
// one. Also tests what a run reports about the checkpoint from which it resumes and about the weights with
// which it ends.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "io/ckpt/checkpoint.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::read_file;
using testing::TestFolder;

struct Told {
  TrainOutput output;
  std::string lines;
};

Told train(const Arguments& arguments) {
  Told told;
  told.output = Trainer(arguments).train([&](const std::string& line) { told.lines += line + "\n"; });
  return told;
}

// Runs a training that must fail with this error code. Returns the error message.
std::string refusal(const Arguments& arguments, ErrorCode code) {
  try {
    train(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the run was not refused";
  return {};
}

void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in " << text;
}

TEST(OtherRuns, AFolderWithCheckpointsOfAnotherRunIsRefused) {
  const TestFolder folder("other_runs");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.max_steps = 4;
  train(arguments);
  const std::string weights = arguments.output_dir + "/checkpoint-4/model.safetensors";
  const std::string before = read_file(weights);
  arguments.seed = 7;
  expect_in(refusal(arguments, ErrorCode::kUsage),
            {folder.path("run"), "begun 20", "checkpoint-1", "--output_dir", "--resume_from_checkpoint True",
             "--replace_checkpoints"});
  EXPECT_TRUE(read_file(weights) == before);

  // With --replace_checkpoints the run replaces the other run's checkpoints of the steps that it saves itself, and keeps all
  // others.
  arguments.replace_checkpoints = true;
  arguments.max_steps = 2;
  arguments.save_total_limit = 1;
  expect_in(train(arguments).lines, {"checkpoints of other runs", "stay"});
  EXPECT_TRUE(read_file(weights) == before);
  EXPECT_TRUE(fs::exists(folder.path("run") + "/checkpoint-3")) << "rotation is for the run's own";
  EXPECT_FALSE(fs::exists(folder.path("run") + "/checkpoint-1"));
  EXPECT_EQ(fs::read_symlink(folder.path("run") + "/last"), "checkpoint-2");

  // The newest checkpoint is one of the run that started last, even if another run's checkpoint has a larger
  // step.
  arguments.resume_from_checkpoint = "True";
  arguments.max_steps = 3;
  expect_in(train(arguments).lines, {"resuming from " + folder.path("run") + "/checkpoint-2: step 2 of 3",
                                     "of the run begun 20", "with the model " + model});
  arguments.replace_checkpoints = false;
  arguments.max_steps = 5;
  expect_in(refusal(arguments, ErrorCode::kUsage), {"checkpoint-4", "--replace_checkpoints"});
  EXPECT_TRUE(read_file(weights) == before);
}

TEST(OtherRuns, AFolderInUseIsRefused) {
  const TestFolder folder("in_use");
  const std::string model = testing::write_tiny_model(folder);
  const Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  fs::create_directories(arguments.output_dir);
  {
    const FolderLock lock(arguments.output_dir);
    expect_in(refusal(arguments, ErrorCode::kUsage),
              {arguments.output_dir + "/.plimsoll.lock", "process " + std::to_string(getpid())});
  }
  EXPECT_EQ(train(arguments).output.step, 12);
}

// A run that resumes in another folder finds the best checkpoint where it was saved.
TEST(OtherRuns, TheBestCheckpointMayLieInAnotherFolder) {
  const TestFolder folder("best_elsewhere");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("first"));
  arguments.max_steps = 3;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 1;
  arguments.load_best_model_at_end = true;
  arguments.metric_for_best_model = "loss";
  arguments.greater_is_better = false;
  const TrainOutput first = train(arguments).output;
  ASSERT_FALSE(first.best_checkpoint.empty());

  arguments.resume_from_checkpoint = folder.path("first") + "/checkpoint-3";
  arguments.output_dir = folder.path("second");
  arguments.max_steps = 5;
  // so large that the loss only grows and the first evaluation remains the best one
  arguments.learning_rate = 3.0;
  arguments.lr_scheduler_type = "constant";
  arguments.warmup_steps = 0;
  {
    Trainer trainer(arguments);
    const TrainOutput second = trainer.train();
    EXPECT_EQ(fs::canonical(second.best_checkpoint), fs::canonical(first.best_checkpoint));
    trainer.save_model(folder.path("saved"));
    EXPECT_TRUE(read_file(folder.path("saved") + "/model.safetensors") ==
                read_file(first.best_checkpoint + "/model.safetensors"));
  }
  fs::remove_all(first.best_checkpoint);
  arguments.resume_from_checkpoint = "True";
  arguments.max_steps = 6;
  expect_in(refusal(arguments, ErrorCode::kBadData), {first.best_checkpoint, "--load_best_model_at_end"});
}

TEST(OtherRuns, ARunSaysWhichWeightsItEndsWith) {
  const TestFolder folder("final_weights");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("early"));
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 1;
  arguments.metric_for_best_model = "loss";
  arguments.greater_is_better = false;
  arguments.early_stopping_patience = 2;
  arguments.learning_rate = 3.0;
  arguments.lr_scheduler_type = "constant";
  arguments.warmup_steps = 0;
  const Told early = train(arguments);
  ASSERT_LT(early.output.step, 12);
  expect_in(early.lines,
            {"stopped early: the weights are those of step " + std::to_string(early.output.step),
             "the best eval_loss was ", "Set --load_best_model_at_end to keep the best weights"});

  arguments.output_dir = folder.path("early_best");
  arguments.load_best_model_at_end = true;
  arguments.save_steps = 1;
  const Told best = train(arguments);
  ASSERT_LT(best.output.step, 12);
  expect_in(best.lines, {"stopped early, at step " + std::to_string(best.output.step) + " of 12",
                         "the weights are those of step ", "the best eval_loss was "});

  // Only every fourth step is saved, so there may be no checkpoint of the best evaluation.
  arguments.early_stopping_patience.reset();
  arguments.output_dir = folder.path("unsaved");
  arguments.load_best_model_at_end = true;
  arguments.max_steps = 4;
  arguments.save_steps = 4;
  expect_in(
      train(arguments).lines,
      {"warning: --load_best_model_at_end: steps are evaluated every 1 but saved every 4",
       "warning: the best eval_loss was ", "which was not saved: the weights are those of step 4, the last"});
}

}  // namespace
}  // namespace plimsoll
