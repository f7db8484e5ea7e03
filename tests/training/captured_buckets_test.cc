// Tests the number of segments (forward, backward and optimizer parts of a step) that a GPU will capture as
// CUDA graphs. A plan predicts it from the data. The test runs on the current device, counts the buckets in the
// log of the run, and compares them with a plan for a GPU, which need not be present.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plimsoll/plan.h"
#include "plimsoll/trainer.h"
#include "run/captured_buckets.h"
#include "run/run_length.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::TestFolder;

// How often the program runs with each padded batch size (bucket). The key is the number of tokens after padding.
using Runs = std::map<int64_t, int64_t>;

int num_met_twice(const Runs& runs) {
  return static_cast<int>(std::ranges::count_if(runs, [](const auto& run) { return run.second >= 2; }));
}

int64_t bucket_of(const Bucket& largest, int64_t tokens) {
  for (const Bucket& bucket : make_ladder(largest)) {
    if (bucket.tokens >= tokens) return bucket.tokens;
  }
  ADD_FAILURE() << tokens << " tokens in a bucket of " << largest.tokens;
  return 0;
}

// Writes rows of 1 to `most_words` words in a pseudo-random order.
std::string write_rows(const TestFolder& folder, const std::string& name, int num_rows, int most_words,
                       const std::string& even = "even", const std::string& odd = "odd") {
  std::ofstream file(folder.path(name));
  file << "sentence,label\n";
  for (int row = 0; row < num_rows; ++row) {
    const int num_words = 1 + row * 17 % 31 * most_words / 31;
    for (int word = 0; word < num_words; ++word) file << (word == 0 ? "a" : " b");
    file << "," << (row % 2 == 0 ? even : odd) << "\n";
  }
  return folder.path(name);
}

// Returns the arguments of a run with twelve logged steps. Each batch has three rows.
Arguments arguments_with_rows(const TestFolder& folder, int num_rows) {
  const std::string model = testing::write_tiny_model(folder);
  testing::write_uneven_rows(folder, num_rows);
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.dataset_name.clear();
  arguments.dummy_num_samples = Arguments{}.dummy_num_samples;
  arguments.dummy_seq_length = Arguments{}.dummy_seq_length;
  arguments.tokenizer_name = model;
  arguments.train_file = folder.path("rows.csv");
  arguments.gradient_accumulation_steps = 1;
  arguments.per_device_eval_batch_size = 4;
  arguments.include_num_input_tokens_seen = "all";
  arguments.num_threads = 1;
  return arguments;
}

RunSetup planned_for_card(const TestFolder& folder, Arguments arguments) {
  arguments.device = "h200";
  arguments.tuning_cache = folder.path("tuning");
  return prepare_run(arguments, RunPurpose::kPlan, {}, posix_file_system());
}

CapturedBuckets planned_buckets(const TestFolder& folder, const Arguments& arguments) {
  return planned_for_card(folder, arguments).request.captured_buckets;
}

// Returns how often each padded batch size (bucket) was used after step `first`. Each step has one micro-batch. The
// bucket follows from the fraction of unused rows, which each log record states.
Runs runs_in_log(const Arguments& arguments, int64_t first) {
  Runs runs;
  int64_t seen = 0;
  std::istringstream lines(testing::read_file(arguments.output_dir + "/log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (!record.contains("unused_row_fraction")) continue;
    const int64_t tokens = record["num_input_tokens_seen"].get<int64_t>() - seen;
    seen += tokens;
    if (record["step"].get<int64_t>() <= first) continue;
    const double used = 1.0 - record["unused_row_fraction"].get<double>();
    ++runs[std::llround(static_cast<double>(tokens) / used)];
  }
  return runs;
}

TEST(CapturedBuckets, AreThoseThatTheLogOfARunMeetsTwice) {
  const TestFolder folder("captured_log");
  Arguments arguments = arguments_with_rows(folder, 47);
  int met_once = 0;
  for (const char* order : {"random", "sequential", "group_by_length"}) {
    for (const int64_t max_steps : {1, 12, 40}) {
      arguments.train_sampling_strategy = order;
      arguments.max_steps = max_steps;
      arguments.dataloader_drop_last = max_steps == 40;
      arguments.save_strategy = "no";
      const CapturedBuckets planned = planned_buckets(folder, arguments);
      Trainer(arguments).train();
      const Runs runs = runs_in_log(arguments, 0);
      int64_t steps = 0;
      for (const auto& [tokens, times] : runs) steps += times;
      EXPECT_EQ(steps, max_steps);
      EXPECT_EQ(planned.train, num_met_twice(runs)) << order << ", " << max_steps << " steps";
      EXPECT_EQ(planned.update, planned.train) << "every micro-batch ends its step";
      EXPECT_EQ(planned.evaluate, 0);
      met_once += static_cast<int>(runs.size()) - planned.train;
    }
  }
  EXPECT_GT(met_once, 2) << "what is met once is not captured";
}

// The forward and the backward pass run once per micro-batch, with its padded size (bucket). The update runs once per
// step, with the bucket of the last micro-batch.
TEST(CapturedBuckets, OfUpdatesAreThoseInWhichStepsEnd) {
  const TestFolder folder("captured_updates");
  Arguments arguments = arguments_with_rows(folder, 47);
  bool differ = false;
  for (const int64_t accumulation : {2, 3, 100}) {
    for (const int64_t max_steps : {1, 4, 9}) {
      arguments.gradient_accumulation_steps = accumulation;
      arguments.max_steps = max_steps;
      const RunSetup setup = planned_for_card(folder, arguments);
      Trainer trainer(arguments);
      Runs micro_batches;
      Runs updates;
      int64_t in_step = 0;
      for (int64_t step = 0; step < max_steps;) {
        const Batch batch = trainer.next_batch();
        const int64_t tokens = bucket_of(setup.request.batches.train, batch.num_tokens());
        ++micro_batches[tokens];
        if (++in_step < accumulation && !batch.last_in_epoch()) continue;
        ++updates[tokens];
        in_step = 0;
        ++step;
      }
      const CapturedBuckets& planned = setup.request.captured_buckets;
      EXPECT_EQ(planned.train, num_met_twice(micro_batches)) << accumulation << " x " << max_steps;
      EXPECT_EQ(planned.update, num_met_twice(updates)) << accumulation << " x " << max_steps;
      differ = differ || planned.update < planned.train;
    }
  }
  EXPECT_TRUE(differ);
}

// A resumed run has captured nothing yet, so only its remaining steps must be counted.
TEST(CapturedBuckets, OfARunThatGoesOnAreThoseOfItsRest) {
  const TestFolder folder("captured_rest");
  Arguments arguments = arguments_with_rows(folder, 47);
  arguments.max_steps = 7;
  arguments.save_steps = 7;
  Trainer(arguments).train();
  const std::string checkpoint = arguments.output_dir + "/checkpoint-7";
  arguments.resume_from_checkpoint = checkpoint;
  bool fewer = false;
  const auto check = [&](const char* what) {
    arguments.output_dir = folder.path(what);
    arguments.save_strategy = "no";
    for (const int64_t max_steps : {7, 9, 16}) {
      arguments.max_steps = max_steps;
      const CapturedBuckets planned = planned_buckets(folder, arguments);
      Trainer(arguments).train();
      EXPECT_EQ(planned.train, num_met_twice(runs_in_log(arguments, 7))) << what << ", " << max_steps;
      Arguments anew = arguments;
      anew.resume_from_checkpoint.clear();
      fewer = fewer || planned.train < planned_buckets(folder, anew).train;
    }
  };
  check("as_before");
  arguments.ignore_data_skip = true;
  check("epoch_anew");
  arguments.ignore_data_skip = false;
  arguments.per_device_train_batch_size = 5;
  check("other_batches");
  EXPECT_TRUE(fewer);
}

int64_t num_logged(const LogHistory& log) {
  int64_t count = 0;
  for (const LogRecord& record : log) count += record.values.contains("eval_loss") ? 1 : 0;
  return count;
}

// Adds the batches of `times` evaluations of a data set to `runs`, each under its padded batch size (bucket).
void add_runs(const RunSetup& setup, const std::optional<Dataset>& data, int64_t times, Runs& runs) {
  if (!data || times == 0) return;
  const std::vector<int32_t> lengths = data->tokens.lengths();
  const int64_t batch = setup.arguments.per_device_eval_batch_size;
  for (int64_t begin = 0; begin < std::ssize(lengths); begin += batch) {
    int64_t tokens = 0;
    for (int64_t row = begin; row < std::min(begin + batch, std::ssize(lengths)); ++row)
      tokens += lengths[static_cast<size_t>(row)];
    runs[bucket_of(setup.request.batches.evaluate, tokens)] += times;
  }
}

// The plan counts all evaluations of a run together: those of the training loop, which the test reads from the
// log, and the one at its end.
TEST(CapturedBuckets, OfEvaluationAreThoseOfAllItsRunsTogether) {
  const TestFolder folder("captured_evaluation");
  const Arguments plain = [&] {
    Arguments arguments = arguments_with_rows(folder, 20);
    arguments.validation_file = write_rows(folder, "validation.csv", 11, 20);
    arguments.test_file = write_rows(folder, "test.csv", 9, 12);
    arguments.save_strategy = "no";
    return arguments;
  }();
  using Change = std::function<void(Arguments&)>;
  const auto steps = [](double interval, double delay) -> Change {
    return [=](Arguments& a) {
      a.eval_strategy = "steps";
      a.eval_steps = interval;
      a.eval_delay = delay;
    };
  };
  const auto epoch = [](double delay) -> Change {
    return [=](Arguments& a) {
      a.eval_strategy = "epoch";
      a.eval_delay = delay;
    };
  };
  const std::vector<Change> strategies{
      [](Arguments&) {}, steps(1, 0), steps(4, 0), steps(5, 6), steps(0.5, 0), steps(100, 0), steps(3, 12),
      steps(3, 99),      epoch(0),    epoch(1),    epoch(1.5),  epoch(1.8),    epoch(3)};
  int runs_of_loops = 0;
  for (size_t i = 0; i < strategies.size(); ++i) {
    for (const size_t more : {i % 8, (i + 5) % 8}) {
      Arguments arguments = plain;
      strategies[i](arguments);
      arguments.do_eval = (more & 1) != 0;
      arguments.do_predict = (more & 2) != 0;
      arguments.eval_on_start = (more & 4) != 0;
      arguments.gradient_accumulation_steps = 1 + static_cast<int64_t>(more % 3);
      SCOPED_TRACE(std::to_string(i) + ", " + std::to_string(more));
      const RunSetup setup = planned_for_card(folder, arguments);
      const int64_t evaluations = num_logged(Trainer(arguments).train().log_history);
      if (setup.data.evaluate) {
        const Sampler sampler(setup.sampler, setup.data.train->tokens.lengths());
        EXPECT_EQ(num_evaluations(setup.arguments, run_length(setup.arguments, sampler), {}), evaluations);
      }
      Runs runs;
      add_runs(setup, setup.data.evaluate, evaluations + (arguments.do_eval ? 1 : 0), runs);
      add_runs(setup, setup.data.predict, arguments.do_predict ? 1 : 0, runs);
      EXPECT_EQ(setup.request.captured_buckets.evaluate, num_met_twice(runs));
      EXPECT_EQ(setup.request.evaluate, setup.data.evaluate || setup.data.predict);
      runs_of_loops += static_cast<int>(evaluations);
    }
  }
  EXPECT_GT(runs_of_loops, 40);
}

class StopInEvaluation : public Callback {
 public:
  StopInEvaluation(Trainer& trainer, int64_t step) : trainer_(trainer), step_(step) {}
  void on_step_end(const StepInfo& info, TrainControl&) override { now_ = info.step; }
  void on_evaluate_progress(int64_t, int64_t) override {
    if (now_ == step_) trainer_.request_stop();
  }

 private:
  Trainer& trainer_;
  int64_t step_;
  int64_t now_ = 0;
};

// The number of CUDA graphs depends on the number of evaluations that a run makes. If a run is resumed after an interrupted evaluation,
// this evaluation and all later ones must be counted.
TEST(CapturedBuckets, OfARunThatGoesOnEvaluateWhatIsLeft) {
  const TestFolder folder("captured_cut_off");
  Arguments arguments = arguments_with_rows(folder, 20);
  arguments.validation_file = write_rows(folder, "validation.csv", 11, 20);
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 2;
  arguments.save_steps = 2;
  arguments.eval_on_start = true;
  arguments.max_steps = 6;
  int64_t before = 0;
  {
    Trainer trainer(arguments);
    trainer.add_callback(std::make_shared<StopInEvaluation>(trainer, 4));
    const TrainOutput output = trainer.train();
    ASSERT_TRUE(output.interrupted);
    before = num_logged(output.log_history);
  }
  EXPECT_EQ(before, 2) << "at the start and after the second step";
  arguments.resume_from_checkpoint = "True";
  for (const int64_t max_steps : {6, 5, 4}) {
    Arguments rest = arguments;
    rest.max_steps = max_steps;
    rest.resume_from_checkpoint = arguments.output_dir + "/checkpoint-4";
    rest.output_dir = folder.path("rest_" + std::to_string(max_steps));
    const RunSetup setup = planned_for_card(folder, rest);
    EXPECT_TRUE(setup.steps.start.evaluation_is_due);
    const int64_t evaluations = num_logged(Trainer(rest).train().log_history) - before;
    EXPECT_EQ(evaluations, max_steps == 4 ? 1 : 2);
    const Sampler sampler(setup.sampler, setup.data.train->tokens.lengths());
    EXPECT_EQ(num_evaluations(setup.arguments, run_length(setup.arguments, sampler), setup.steps.start),
              evaluations);
    Runs runs;
    add_runs(setup, setup.data.evaluate, evaluations, runs);
    EXPECT_EQ(setup.request.captured_buckets.evaluate, num_met_twice(runs));
  }
  // The run resumes in the middle of an epoch. It evaluates at the end of this epoch and of all later ones.
  arguments.eval_strategy = "epoch";
  arguments.eval_steps.reset();
  arguments.save_strategy = "no";
  for (const double delay : {0.0, 1.2, 2.0}) {
    for (const int64_t max_steps : {6, 7, 14}) {
      Arguments rest = arguments;
      rest.eval_delay = delay;
      rest.max_steps = max_steps;
      rest.resume_from_checkpoint = arguments.output_dir + "/checkpoint-2";
      rest.output_dir = folder.path("epochs");
      const RunSetup setup = planned_for_card(folder, rest);
      const int64_t evaluations = num_logged(Trainer(rest).train().log_history) - before;
      const Sampler sampler(setup.sampler, setup.data.train->tokens.lengths());
      EXPECT_EQ(num_evaluations(setup.arguments, run_length(setup.arguments, sampler), setup.steps.start),
                evaluations)
          << delay << ", " << max_steps;
    }
  }
}

// Counts the padded batch sizes (buckets) of a run that only evaluates or predicts.
TEST(CapturedBuckets, OfEvaluationAloneAreThoseOfOneRun) {
  const TestFolder folder("captured_alone");
  Arguments arguments = arguments_with_rows(folder, 20);
  arguments.device = "h200";
  arguments.tuning_cache = folder.path("tuning");
  arguments.dry_run = true;
  arguments.validation_file = write_rows(folder, "validation.csv", 40, 20, "LABEL_0", "LABEL_1");
  arguments.test_file = arguments.validation_file;
  for (const RunPurpose purpose : {RunPurpose::kEvaluate, RunPurpose::kPredict}) {
    for (const bool predicts : {false, true}) {
      arguments.do_predict = predicts;
      const RunSetup setup = prepare_run(arguments, purpose, {}, posix_file_system());
      Runs runs;
      if (purpose == RunPurpose::kEvaluate) add_runs(setup, setup.data.evaluate, 1, runs);
      add_runs(setup, setup.data.predict, 1, runs);
      const CapturedBuckets& planned = setup.request.captured_buckets;
      EXPECT_EQ(planned.evaluate, num_met_twice(runs));
      EXPECT_GT(planned.evaluate, 0);
      const Plan plan = build_plan(setup.request);
      EXPECT_EQ(plan.gpu_constant.graphs_of(kEvaluateProgram).count, planned.evaluate);
      EXPECT_EQ(plan.gpu_constant.graphs_of(kTrainProgram).count, 0);
    }
  }
}

// `plan` and `train --dry_run` must count the same padded batch sizes (buckets), because both know the data. If the
// data is unknown, an evaluation may use every bucket, and the largest number is planned.
TEST(CapturedBuckets, AreTheSameInAPlanAndInARun) {
  const TestFolder folder("captured_same");
  Arguments arguments = arguments_with_rows(folder, 47);
  arguments.validation_file = write_rows(folder, "validation.csv", 11, 20);
  arguments.do_eval = true;
  arguments.device = "h200";
  arguments.tuning_cache = folder.path("tuning");
  int64_t longer = 0;
  for (const int64_t max_steps : {40, 6}) {
    arguments.max_steps = max_steps;
    arguments.dry_run = false;
    const PlanReport plan = plan_run(arguments);
    arguments.dry_run = true;
    const Trainer trainer(arguments);
    EXPECT_EQ(trainer.plan().total_bytes, plan.total_bytes);
    EXPECT_EQ(trainer.plan().json, plan.json);
    if (longer > 0) {
      EXPECT_LT(plan.total_bytes, longer);
    }
    longer = plan.total_bytes;
  }
  arguments.profile = true;
  EXPECT_EQ(planned_buckets(folder, arguments), (CapturedBuckets{.train = 0, .update = 0, .evaluate = 0}))
      << "ops that are timed are given one by one";
  arguments.profile = false;
  arguments.train_file.clear();
  EXPECT_EQ(planned_buckets(folder, arguments),
            (CapturedBuckets{.train = 1, .update = 1, .evaluate = kMaxCapturedBuckets}));
}

// Counting padded batch sizes (buckets) must be fast for very many epochs. If all epochs are alike, at most three of
// them are counted. If many are different, the result is the number of all buckets, an upper bound.
TEST(CapturedBuckets, OfManyEpochsAreBounded) {
  CountedRun run{.sampler = {.strategy = SamplingStrategy::kSequential, .batch_size = 3},
                 .train_lengths = {5, 9, 40, 7, 7, 7, 100, 1, 2, 12}};
  run.arguments.per_device_train_batch_size = 3;
  run.arguments.max_steps = int64_t{1} << 40;
  const Bucket largest{.tokens = 240, .sequences = 3, .longest = 100};
  EXPECT_EQ(captured_buckets(run, largest, {}).train, 4) << "54, 21, 103 and 12 tokens";
  run.arguments.max_steps = 5;
  EXPECT_EQ(captured_buckets(run, largest, {}).train, 1) << "the first batch comes again";
  run.start = {.step = 1, .position = {.epoch = 0, .index = 3}};
  EXPECT_EQ(captured_buckets(run, largest, {}).train, 0);
  run.start = {};
  run.sampler.strategy = SamplingStrategy::kRandom;
  run.arguments.max_steps = 40;
  const CapturedBuckets walked = captured_buckets(run, largest, {});
  EXPECT_LT(walked.train, 14);
  EXPECT_EQ(captured_buckets(run, largest, {}, 10 * 10).train, walked.train) << "ten epochs of ten rows";
  const CapturedBuckets bounded = captured_buckets(run, largest, {}, 9 * 10);
  EXPECT_EQ(bounded.train, 15) << "the whole ladder";
  EXPECT_EQ(bounded.update, 15);
  run.arguments.max_steps = int64_t{1} << 40;
  run.train_lengths.assign(10, 7);
  EXPECT_EQ(captured_buckets(run, largest, {}).train, 2) << "21 tokens, and 7 of the last row";
}

}  // namespace
}  // namespace plimsoll
