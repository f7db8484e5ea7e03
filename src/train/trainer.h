// The training loop: steps, logs, evaluations, checkpoints, resume, ending well. A client of Session. One
// thread drives it; what asks it to stop is a flag of its caller's, which any thread and a signal handler may
// set.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/monitor/gpu_log.h"
#include "io/ckpt/checkpoint.h"
#include "optim/metric_schedule.h"
#include "optim/schedule.h"
#include "run/run_state.h"
#include "train/session.h"
#include "train/speed.h"

namespace plimsoll {

class TrainLoop {
 public:
  // Once true, the step in hand is finished and saved, and the run ends with `interrupted`. Null: nobody
  // asks.
  using StopFlag = const std::atomic<bool>*;

  // `session` must be allocated before run(); it and the flag outlive the loop.
  TrainLoop(Session& session, std::vector<std::shared_ptr<Callback>> callbacks, StopFlag stop = nullptr);

  // Called once a run is certain to go ahead, before its first step, with lines for people: what was resumed,
  // which checkpoints were skipped and why, which arguments changed.
  using OnBegin = std::function<void(const std::vector<std::string>& lines)>;

  // Takes the output folder for this run alone until it returns or throws; begins with states of zero or,
  // where the arguments ask for it, continues from the newest checkpoint that verifies or from the named one
  // (resume_from_checkpoint "True" or a path); trains to the end, or to a stop. Called once in a loop's life.
  // Errors: kUsage when another process trains into the folder, or when it holds checkpoints of another run
  // that this one could write over; kBadData when a named checkpoint is damaged or belongs to another model.
  // The session is as it was then, unless that was found while tensors were read: it is released. Behind
  // on_begin: kNotFinite, kDevice, kBadData; what was saved stays.
  TrainOutput run(const OnBegin& on_begin = {});

  // Whether the run resumes from the checkpoint of its end, so that run() has nothing to train. Known from
  // the call of on_begin on.
  bool is_complete() const { return state_.step >= state_.max_steps && !state_.evaluation_is_due; }

  // The steps of the run whose update was given to the device, also the last one if an error kept it from
  // being counted.
  int64_t steps_given() const { return state_.step + (step_before_ ? 1 : 0); }

  // Lines for people after run(), where it was stopped early or looked for the best weights: which step's
  // weights it ends with.
  const std::vector<std::string>& closing_lines() const { return closing_lines_; }

  int64_t tokens_seen() const { return state_.tokens_seen; }
  // Mean wall time of the steps that this object ran, their waiting for data included; 0 before the first.
  // Those that met a bucket for the first time count only where there are no others.
  double mean_step_ms() const {
    const StepTimes& times = later_steps_.count > 0 ? later_steps_ : first_steps_;
    return times.count == 0 ? 0.0 : times.ms / static_cast<double>(times.count);
  }

  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

 private:
  // A micro-batch that the device was given.
  struct GivenBatch {
    const MicroBatch* batch = nullptr;
    int64_t number = 0;  // in the run, from 0
  };
  // Stops the clock of the steps while it lives, for evaluations and saves. Its constructor first waits until
  // the device is done with what it was given, and that time still counts: it is work of the next step.
  class Pause {
   public:
    explicit Pause(TrainLoop& loop);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    TrainLoop& loop_;
    std::chrono::steady_clock::time_point start_;
  };
  // An optimizer step from its first micro-batch until what it left has been read.
  struct Step {
    StepInfo info = {};
    double denominator = 0;
    int64_t num_given = 0;                  // micro-batches
    std::optional<GivenBatch> unread = {};  // the last of them, while its loss was not read
    std::vector<int32_t> rows = {};         // of the training data
    BatchInfo last = {};
    int64_t micro_batches_done = 0;
    double flops = 0;
    bool meets_bucket = false;
  };

  // trainer_begin.cc
  std::vector<std::string> begin();
  void take_up(const OpenCheckpoint& checkpoint, std::vector<std::string>& lines);
  void restore(const OpenCheckpoint& checkpoint);
  void find_best_checkpoint(const std::string& path, RunState& state);
  void respect_other_runs(bool resumed, std::vector<std::string>& lines);
  void tell_unsaved_evaluations(std::vector<std::string>& lines) const;

  // trainer.cc
  bool stop_is_requested() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  bool has_ended() const;
  TrainOutput leave_as_it_was();
  PhaseWork whole_run() const;
  void take_steps();
  void whole_step();
  bool device_has_failed() const;
  std::string place_to_go_on_from() const;
  int64_t updates_done() const;
  double learning_rate() const;
  void tell_skipped(const StepInfo& info) const;
  void after_step(const StepInfo& info);
  void finish_step(const StepInfo& info);
  void finish_cut_off_step();
  // tokens_per_second, mfu and both fractions are over the sum of StepInfo::step_ms since the last record:
  // wall time without evaluations and saves.
  void log_step(const StepInfo& info);
  void warn(const std::string& text) const;
  bool evaluate(const StepInfo& info);
  void record(LogRecord record);
  bool is_due(const std::string& strategy, double setting, const StepInfo& info,
              const DataPosition& next) const;
  void end_of_step_control(const StepInfo& info);
  int64_t last_epoch() const;
  int64_t rows_trained() const;
  MetricMap final_metrics(const PhaseWork& work) const;

  // trainer_step.cc
  void take_step();
  MicroBatch& take_batch();
  void give(const Step& step, const GivenBatch& given);
  void count_given(Step& step, const MicroBatch& batch);
  void read_loss(Step& step);
  bool is_followed_by_other_work(const Step& step) const;
  void finish_step_before();
  void count_step(Step& step);
  [[noreturn]] void refuse_loss(const Step& step, const GivenBatch& given, double loss);

  // trainer_save.cc
  void update_best(const StepInfo& info, const MetricMap& metrics);
  void remember_callbacks();
  CheckpointContents checkpoint_contents();
  void save(const StepInfo& info);
  void choose_final_weights();

  Session& session_;
  const Arguments& arguments_;
  std::vector<std::shared_ptr<Callback>> callbacks_;
  StopFlag stop_;
  std::optional<Schedule> schedule_;
  MetricScheduleOptions metric_options_;
  std::optional<MetricScheduleState> metric_state_;
  RunState state_;
  TrainControl control_;
  bool end_ = false;
  bool interrupted_ = false;         // the run ends where it does because a stop was requested
  std::vector<MicroBatch> batches_;  // in turn: two where the plan runs ahead
  size_t next_batch_ = 0;
  std::optional<Step> step_before_;  // whose update was given, and what it left not read
  int64_t skipped_steps_ = 0;
  double waited_ms_ = 0;  // for batches, since a step was finished
  std::chrono::steady_clock::time_point begin_;
  double seconds_before_ = 0;                          // of training, before begin_
  std::chrono::steady_clock::time_point last_finish_;  // later by what was no time of steps since
  int64_t saved_step_ = -1;
  std::string last_checkpoint_;
  std::vector<std::string> closing_lines_;
  std::optional<GpuLog> gpu_log_;  // where the run is on a GPU
  struct BucketFlops {
    double all = 0;
    double model = 0;  // see model_flops()
  };
  std::map<int64_t, BucketFlops> flops_by_bucket_;
  WaitingWatch waiting_;
  int64_t tokens_since_log_ = 0;
  int64_t rows_since_log_ = 0;
  double wait_since_log_ms_ = 0;
  double time_since_log_ms_ = 0;
  double model_flops_since_log_ = 0;
  struct StepTimes {
    double ms = 0;
    int64_t count = 0;
  };
  StepTimes first_steps_;  // that met a bucket for the first time in this object
  StepTimes later_steps_;
};

// The metric that decides which model is best, as the log names it.
std::string metric_name(const Arguments& arguments);

// Floating-point operations of a full training step (all micro-batches excluded), as the plan states them.
double plan_flops(const ProgramPlan& program, const Bucket& bucket);

}  // namespace plimsoll
