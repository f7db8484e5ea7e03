// Tests that a run which stops and resumes ends with the same bits as an uninterrupted one: weights, optimizer
// states, log and order of the data.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;

TEST(Resume, EveryStepGoesOnBitForBit) {
  const TestFolder folder("resume");
  const std::string model = testing::write_tiny_model(folder);
  Arguments whole = testing::tiny_arguments(model, folder.path("whole"));
  const TrainOutput expected = Trainer(whole).train();
  ASSERT_EQ(expected.step, 12);
  const std::string last = "/checkpoint-12/";
  for (int step = 1; step < 12; ++step) {
    SCOPED_TRACE("resumed after step " + std::to_string(step));
    Arguments rest = testing::tiny_arguments(model, folder.path("rest" + std::to_string(step)));
    rest.dataloader_num_workers = step % 3;
    rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-" + std::to_string(step);
    Trainer trainer(rest);
    const TrainOutput output = trainer.train();
    EXPECT_EQ(stable_log(output.log_history), stable_log(expected.log_history));
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string wanted = read_file(whole.output_dir + last + file);
      ASSERT_FALSE(wanted.empty());
      EXPECT_TRUE(read_file(rest.output_dir + last + file) == wanted) << file;
    }
  }
}

// Recomputation changes no bit in fp32, so a run may be resumed with another recomputation choice and must
// still end with the same bits.
TEST(Resume, RecomputingGoesOnBitForBit) {
  const TestFolder folder("recompute");
  const std::string model = testing::write_tiny_model(folder);
  Arguments whole = testing::tiny_arguments(model, folder.path("whole"));
  Trainer(whole).train();
  const auto file_of = [](const Arguments& run, const char* file) {
    return read_file(run.output_dir + "/checkpoint-12/" + file);
  };
  for (const char* policy : {"none", "selective", "full", "budget"}) {
    SCOPED_TRACE(policy);
    Arguments run = testing::tiny_arguments(model, folder.path(policy));
    run.resume_from_checkpoint = whole.output_dir + "/checkpoint-5";
    if (policy == std::string("budget")) {
      run.recompute_budget = int64_t{1} << 40;
    } else if (policy == std::string("full")) {
      run.gradient_checkpointing = true;
    } else {
      run.recompute = policy;
    }
    Trainer(run).train();
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      ASSERT_FALSE(file_of(whole, file).empty());
      EXPECT_TRUE(file_of(run, file) == file_of(whole, file)) << file;
    }
  }
}

TEST(Resume, TwoRunsAndAnyNumberOfWorkersGiveTheSameBits) {
  const TestFolder folder("same_bits");
  const std::string model = testing::write_tiny_model(folder);
  std::string first;
  for (const int workers : {0, 0, 1, 2}) {
    Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
    std::filesystem::remove_all(arguments.output_dir);
    arguments.dataloader_num_workers = workers;
    arguments.save_strategy = "no";
    Trainer trainer(arguments);
    trainer.train();
    trainer.save_model(folder.path("model_out"));
    const std::string weights = read_file(folder.path("model_out") + "/model.safetensors");
    ASSERT_FALSE(weights.empty());
    if (first.empty()) first = weights;
    EXPECT_TRUE(weights == first) << workers << " workers";
  }
}

// With --full_determinism no matrix product algorithms are measured, so two runs must have the same bits even
// if they share no table of measurements.
TEST(Resume, FullDeterminismMeasuresNothingAndRepeatsItsBits) {
  const TestFolder folder("full_determinism");
  const std::string model = testing::write_tiny_model(folder);
  std::string first;
  for (const char* name : {"one", "two"}) {
    Arguments arguments = testing::tiny_arguments(model, folder.path(name));
    arguments.full_determinism = true;
    arguments.tuning_cache = folder.path("tuning");
    Trainer(arguments).train();
    EXPECT_FALSE(std::filesystem::exists(arguments.tuning_cache));
    const std::string weights = read_file(arguments.output_dir + "/checkpoint-12/model.safetensors");
    ASSERT_FALSE(weights.empty());
    if (first.empty()) first = weights;
    EXPECT_TRUE(weights == first) << name;
  }
}

// The algorithms of matrix products are chosen by measurements, which are stored in a cache. The cache may
// change or be deleted between runs, so a resumed run must use the choices that are stored in its checkpoint.
TEST(Resume, TakesTheTuningTableOfItsCheckpoint) {
  const TestFolder folder("tuned");
  const std::string model = testing::write_tiny_model(folder);
  Arguments whole = testing::tiny_arguments(model, folder.path("whole"));
  whole.tuning_cache = folder.path("tuning");
  Trainer(whole).train();
  const bool is_measured = std::filesystem::exists(whole.tuning_cache);
  EXPECT_EQ(is_measured, whole.device != "auto" && whole.device != "cpu");
  Arguments rest = testing::tiny_arguments(model, folder.path("rest"));
  rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-5";
  Trainer(rest).train();
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "tuning.json"}) {
    const std::string wanted = read_file(whole.output_dir + "/checkpoint-12/" + file);
    EXPECT_TRUE(read_file(rest.output_dir + "/checkpoint-12/" + file) == wanted) << file;
    EXPECT_EQ(wanted.empty(), file == std::string("tuning.json") && !is_measured) << file;
  }
}

// Resuming a completed run must change nothing. A run that was killed just before its end must be completed,
// and its report must include all its steps.
TEST(Resume, ARunThatCameToItsEndStaysAsItWas) {
  const TestFolder folder("complete");
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  {
    Trainer trainer(arguments);
    const TrainOutput output = trainer.train();
    EXPECT_FALSE(output.was_complete);
    trainer.save_reports(output);
  }
  const auto text_of = [&](const char* file) { return read_file(arguments.output_dir + file); };
  const std::vector<const char*> files = {"/log.jsonl", "/trainer_state.json", "/memory.json", "/plan.json",
                                          "/loss.svg"};
  std::vector<std::string> before;
  for (const char* file : files) before.push_back(text_of(file));
  arguments.resume_from_checkpoint = "True";
  for (const bool is_killed_before_its_end : {false, true}) {
    if (is_killed_before_its_end) {
      std::filesystem::copy_file(arguments.output_dir + "/checkpoint-12/log.jsonl",
                                 arguments.output_dir + "/log.jsonl",
                                 std::filesystem::copy_options::overwrite_existing);
    }
    // A run that is killed while it writes the report README.md leaves a temporary file with this name, which the next run must delete.
    const std::string leftover = arguments.output_dir + "/.plimsoll-tmp-README.md";
    std::ofstream(leftover) << "---";
    Trainer trainer(arguments);
    std::string told;
    const TrainOutput output = trainer.train([&](const std::string& line) { told += line + "\n"; });
    EXPECT_FALSE(std::filesystem::exists(leftover));
    EXPECT_NE(told.find("training was already complete at step 12"), std::string::npos) << told;
    EXPECT_EQ(output.step, 12);
    EXPECT_EQ(output.was_complete, !is_killed_before_its_end);
    EXPECT_EQ(trainer.save_reports(output).empty(), !is_killed_before_its_end);
    EXPECT_TRUE(output.log_history.back().values.contains("train_loss"));
    EXPECT_GT(output.metrics.at("train_steps_per_second"), 0.0);
    EXPECT_GT(output.metrics.at("train_samples_per_second"), 0.0);
    for (size_t i = 0; i < files.size(); ++i) {
      ASSERT_FALSE(before[i].empty()) << files[i];
      if (!is_killed_before_its_end) {
        EXPECT_TRUE(text_of(files[i]) == before[i]) << files[i];
      }
    }
  }
  EXPECT_NE(text_of("/log.jsonl").find("train_loss"), std::string::npos);
}

// A damaged newest checkpoint is skipped with the reason, and the previous one is used.
TEST(Resume, SkipsADamagedCheckpointAndSaysWhy) {
  const TestFolder folder("damaged");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.max_steps = 4;
  Trainer(arguments).train();
  std::filesystem::resize_file(arguments.output_dir + "/checkpoint-4/optimizer.safetensors", 100);
  arguments.max_steps = 6;
  arguments.resume_from_checkpoint = "True";
  std::vector<std::string> lines;
  const TrainOutput output =
      Trainer(arguments).train([&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(output.step, 6);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_NE(lines[0].find("checkpoint-4"), std::string::npos);
  EXPECT_NE(lines[0].find("skipped"), std::string::npos);
  EXPECT_NE(lines.back().find("checkpoint-3"), std::string::npos);
  bool told = false;
  for (const std::string& line : lines)
    told = told || line.find("--max_steps: was 4, is now 6") != std::string::npos;
  EXPECT_TRUE(told) << "the changed argument is printed";
}

bool has_states(const Arguments& arguments, int step) {
  return std::filesystem::exists(arguments.output_dir + "/checkpoint-" + std::to_string(step) +
                                 "/optimizer.safetensors");
}

// The last checkpoint of a completed run contains optimizer states only if further steps could continue the
// training with the same schedule, for example with a constant learning rate, or if the user requested them.
TEST(Resume, ACompletedRunKeepsStatesThatMoreStepsNeed) {
  const TestFolder folder("final_states");
  const std::string model = testing::write_tiny_model(folder);
  struct Case {
    std::string schedule;
    KeyValues options;
    std::optional<bool> save_only_model;
    bool keeps;
  };
  const Case cases[] = {
      {"linear", {}, {}, false},      {"cosine", {}, {}, false},
      {"polynomial", {}, {}, false},  {"linear", {}, false, true},
      {"linear", {}, true, false},    {"constant", {}, {}, true},
      {"constant", {}, true, false},  {"constant_with_warmup", {}, {}, true},
      {"inverse_sqrt", {}, {}, true}, {"cosine_with_min_lr", {{"min_lr_rate", "0.1"}}, {}, true}};
  int index = 0;
  for (const Case& test : cases) {
    SCOPED_TRACE(test.schedule + " " + std::to_string(index));
    Arguments arguments = testing::tiny_arguments(model, folder.path("run" + std::to_string(index++)));
    arguments.max_steps = 4;
    arguments.lr_scheduler_type = test.schedule;
    arguments.lr_scheduler_kwargs = test.options;
    arguments.save_only_model = test.save_only_model;
    Trainer(arguments).train();
    EXPECT_EQ(has_states(arguments, 4), test.keeps);
    EXPECT_EQ(has_states(arguments, 3), test.save_only_model != true) << "the run was not complete";
  }
}

// Stops a run after a step, as a callback of the user does.
class EndAfter : public Callback {
 public:
  explicit EndAfter(int64_t step) : step_(step) {}
  void on_step_end(const StepInfo& info, TrainControl& control) override {
    control.stop = info.step == step_;
  }

 private:
  int64_t step_;
};

TEST(Resume, ARunThatStopsEarlyKeepsItsStates) {
  const TestFolder folder("early");
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.save_only_model.reset();
  Trainer trainer(arguments);
  trainer.add_callback(std::make_shared<EndAfter>(5));
  EXPECT_EQ(trainer.train().step, 5);
  EXPECT_TRUE(has_states(arguments, 5));
}

// A completed run whose last checkpoint has no optimizer states can be extended by more steps. The states and
// their bias corrections then start from zero. An extension that is interrupted and resumed must end with the
// same bits.
TEST(Resume, ExtendsACompletedRunWithoutStates) {
  const TestFolder folder("extended");
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.save_only_model.reset();
  arguments.max_steps = 4;
  Trainer(arguments).train();
  const std::string complete = arguments.output_dir + "/checkpoint-4";
  ASSERT_FALSE(has_states(arguments, 4));
  const std::string weights = read_file(complete + "/model.safetensors");

  arguments.resume_from_checkpoint = "True";
  EXPECT_TRUE(Trainer(arguments).train().was_complete);
  EXPECT_TRUE(read_file(complete + "/model.safetensors") == weights);

  Arguments whole = arguments;
  whole.resume_from_checkpoint = complete;
  whole.output_dir = folder.path("whole");
  whole.max_steps = 9;
  std::string lines;
  const TrainOutput expected = Trainer(whole).train([&](const std::string& line) { lines += line + "\n"; });
  EXPECT_EQ(expected.step, 9);
  EXPECT_NE(lines.find("checkpoint-4 has no optimizer states"), std::string::npos) << lines;

  Arguments parts = whole;
  parts.output_dir = folder.path("parts");
  Trainer first(parts);
  first.add_callback(std::make_shared<EndAfter>(6));
  EXPECT_EQ(first.train().step, 6);
  ASSERT_TRUE(has_states(parts, 6));
  parts.resume_from_checkpoint = "True";
  lines.clear();
  EXPECT_EQ(Trainer(parts).train([&](const std::string& line) { lines += line + "\n"; }).step, 9);
  EXPECT_EQ(lines.find("no optimizer states"), std::string::npos) << lines;
  const std::string file = "/checkpoint-9/model.safetensors";
  EXPECT_TRUE(read_file(parts.output_dir + file) == read_file(whole.output_dir + file));
  EXPECT_TRUE(read_file(complete + "/model.safetensors") == weights) << "what was saved stays";
}

// If a run resumes with another batch size, it may start in the middle of one of the new batches. Its batches
// then differ from those of a run from the start, so the plan must cover the largest batch that the data
// permits.
TEST(Resume, AnotherBatchSizeGoesOn) {
  const TestFolder folder("batch_size");
  Arguments arguments;
  arguments.config_name = testing::write_tiny_model(folder);
  arguments.tokenizer_name = arguments.config_name;
  arguments.train_file = testing::write_uneven_rows(folder, 40);
  arguments.num_threads = 1;
  arguments.save_steps = 2;
  int larger_than_from_the_start = 0;
  for (int64_t seed = 0; seed < 3; ++seed) {
    arguments.seed = seed;
    arguments.output_dir = folder.path("run" + std::to_string(seed));
    arguments.per_device_train_batch_size = 3;
    arguments.resume_from_checkpoint.clear();
    arguments.max_steps = 2;
    Trainer(arguments).train();
    arguments.per_device_train_batch_size = 5;
    arguments.max_steps = 8;
    Trainer from_the_start(arguments);
    arguments.resume_from_checkpoint = "True";
    Trainer trainer(arguments);
    larger_than_from_the_start += trainer.plan().arena_bytes > from_the_start.plan().arena_bytes ? 1 : 0;
    bool told = false;
    for (const std::string& note : trainer.plan().notes)
      told = told || note.find("the largest batch that the data can make") != std::string::npos;
    EXPECT_TRUE(told);
    EXPECT_EQ(trainer.train().step, 8);
  }
  EXPECT_GT(larger_than_from_the_start, 0);
}

// After a stop request the step is finished and saved, and the resumed run ends with the same bits.
TEST(Resume, StopRequestSavesAndGoesOn) {
  class StopAfter : public Callback {
   public:
    StopAfter(Trainer& trainer, int64_t step) : trainer_(trainer), step_(step) {}
    void on_step_end(const StepInfo& info, TrainControl&) override {
      if (info.step == step_) trainer_.request_stop();
    }

   private:
    Trainer& trainer_;
    int64_t step_;
  };
  const TestFolder folder("stop");
  const std::string model = testing::write_tiny_model(folder);
  Arguments whole = testing::tiny_arguments(model, folder.path("whole"));
  whole.save_steps = 12;
  Trainer(whole).train();
  Arguments stopped = testing::tiny_arguments(model, folder.path("stopped"));
  stopped.save_steps = 12;
  {
    Trainer trainer(stopped);
    trainer.add_callback(std::make_shared<StopAfter>(trainer, 5));
    const TrainOutput output = trainer.train();
    EXPECT_TRUE(output.interrupted);
    EXPECT_EQ(output.step, 5);
    EXPECT_TRUE(std::filesystem::exists(stopped.output_dir + "/checkpoint-5/plimsoll_manifest.json"));
  }
  stopped.resume_from_checkpoint = "True";
  EXPECT_FALSE(Trainer(stopped).train().interrupted);
  EXPECT_TRUE(read_file(stopped.output_dir + "/checkpoint-12/model.safetensors") ==
              read_file(whole.output_dir + "/checkpoint-12/model.safetensors"));
}

TEST(Training, EarlyStoppingAndBestModel) {
  const TestFolder folder("early");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 1;
  arguments.do_eval = true;
  arguments.load_best_model_at_end = true;
  arguments.metric_for_best_model = "loss";
  arguments.greater_is_better = false;
  arguments.save_total_limit = 1;
  arguments.early_stopping_patience = 2;
  // No evaluation improves the loss by as much as this threshold, so the run stops after the second evaluation without improvement.
  arguments.early_stopping_threshold = 100.0;
  Trainer trainer(arguments);
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.step, 3);
  EXPECT_FALSE(output.best_checkpoint.empty());
  int checkpoints = 0;
  for (const auto& entry : std::filesystem::directory_iterator(arguments.output_dir)) {
    checkpoints += entry.is_directory() && !entry.is_symlink() &&
                           entry.path().filename().string().starts_with("checkpoint-")
                       ? 1
                       : 0;
  }
  EXPECT_LE(checkpoints, 2) << "the best and the last";
  EXPECT_GE(checkpoints, 1);
}

TEST(Training, AccumulationOverTheEndOfAnEpochCountsRealSamples) {
  // The data has 22 rows, in micro-batches of 3 and steps of two micro-batches. The last step of an epoch has
  // only 4 rows.
  const TestFolder folder("ragged");
  const std::string model = testing::write_tiny_model(folder, 0.0);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.save_strategy = "no";
  arguments.max_steps = 4;
  arguments.train_sampling_strategy = "sequential";
  arguments.learning_rate = 1e-12;
  const TrainOutput micro = Trainer(arguments).train();
  arguments.per_device_train_batch_size = 6;
  arguments.gradient_accumulation_steps = 1;
  const TrainOutput large = Trainer(arguments).train();
  ASSERT_GE(micro.log_history.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(micro.log_history[i].values.at("loss"), large.log_history[i].values.at("loss"), 1e-6);
    EXPECT_NEAR(micro.log_history[i].values.at("grad_norm"), large.log_history[i].values.at("grad_norm"),
                1e-5);
  }
}

TEST(Training, WillNotFitIsRefusedBeforeAnythingIsTaken) {
  const TestFolder folder("fit");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.memory_limit = 1 << 20;
  try {
    Trainer(arguments).train();
    FAIL() << "a run over its limit was started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWillNotFit);
    EXPECT_NE(std::string(error.what()).find("--memory_limit"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(arguments.output_dir + "/log.jsonl"));
}

TEST(Training, NotFiniteStopsBeforeTheUpdate) {
  const TestFolder folder("not_finite");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.learning_rate = 1e30;
  arguments.lr_scheduler_type = "constant";
  arguments.warmup_steps = 0;
  try {
    Trainer(arguments).train();
    FAIL() << "a diverging run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFinite);
    EXPECT_NE(std::string(error.what()).find("step "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("Samples"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::exists(arguments.output_dir + "/checkpoint-1/model.safetensors"))
      << "what was saved stays";
}

}  // namespace
}  // namespace plimsoll
