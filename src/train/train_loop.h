// The training loop: begins or resumes a run, takes its steps, evaluates, saves and ends it. StepEngine runs the steps, ActionSchedule
// decides which actions follow a step, RunLog writes the log, and CheckpointPolicy saves checkpoints. The loop is used by one thread; any
// thread or signal handler may set the flag that stops it.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "train/action_schedule.h"
#include "train/checkpoint_policy.h"
#include "train/learning_rate.h"
#include "train/resume.h"
#include "train/run_log.h"
#include "train/session.h"
#include "train/speed.h"
#include "train/step_engine.h"

namespace plimsoll {

class TrainLoop : private StepEngine::Client {
 public:
  // A flag that requests the run to stop: once it is true, the loop finishes and saves the current step, and the run ends with
  // `interrupted`. May be null.
  using StopFlag = const std::atomic<bool>*;

  // Requires: `session` is allocated before run(); the session and the flag outlive the loop.
  TrainLoop(Session& session, Callbacks callbacks, StopFlag stop = nullptr);

  // A function that is called before the first step, when all checks of the run have succeeded. It receives lines to print: the
  // checkpoint from which the run resumes, checkpoints that were skipped and why, and arguments that changed.
  using OnBegin = std::function<void(const std::vector<std::string>& lines)>;

  // Locks the output folder until it returns or throws. Begins with optimizer states of zero or, if --resume_from_checkpoint is set,
  // resumes from the newest undamaged checkpoint ("True") or from the named one. Trains to the end, or until it is stopped. Called once
  // per loop. Errors: kUsage if another process trains into the same folder, or if the folder contains checkpoints of another run that
  // this run could overwrite; kBadData if a named checkpoint is damaged or belongs to another model. After these errors the session is
  // unchanged, except that its memory is released if the error occurred while tensors were read. Errors after on_begin: kNotFinite,
  // kDevice, kBadData; saved checkpoints stay.
  TrainOutput run(const OnBegin& on_begin = {});

  // Returns true if the run was already complete in the checkpoint from which it resumes, so that run() has nothing to train. Valid
  // after on_begin was called.
  bool is_complete() const { return state_.step >= state_.max_steps && !state_.evaluation_is_due; }

  // Returns the number of steps of the run whose update was enqueued on the device. This includes a last step that an error prevented
  // from being completed.
  int64_t num_enqueued_steps() const { return state_.step + (engine_.has_pending_step() ? 1 : 0); }

  // Returns lines to print after run(). If the run was stopped early, or is configured to end with its best weights, they state the step
  // from which the model's weights come.
  const std::vector<std::string>& closing_lines() const { return closing_lines_; }

  int64_t tokens_seen() const { return state_.totals.tokens; }
  double mean_step_ms() const { return engine_.mean_step_ms(); }

  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

 private:
  enum class Outcome : uint8_t { kCompleted, kInterrupted, kLacksMetric };

  // Implements StepEngine::Client.
  double learning_rate(int64_t num_updates) override;
  bool is_followed_by_other_work(const StepInfo& info, const DataPosition& next) override;
  StepEngine::AfterStep on_step(const FinishedStep& step) override;

  // Functions that run at the beginning of training.
  std::vector<std::string> begin();
  void resume_from(const OpenCheckpoint& checkpoint, std::vector<std::string>& lines);
  void restore(const OpenCheckpoint& checkpoint);

  // Functions that run during and between steps.
  void run_steps();
  void run_step();
  StepEngine::AfterStep finish_step(const StepInfo& info);
  StepEngine::AfterStep finish_interrupted_step();
  Outcome evaluate(const StepInfo& info);
  Outcome lack_metric(const MetricMap& metrics);
  void save(const StepInfo& info);
  bool agree_with_ranks();
  void finish_save();
  template <typename Work>
  void explain_failure(const Work& work);
  int64_t last_epoch() const;

  // Functions that run at the end of training.
  TrainOutput finish_completed_run();
  void choose_final_weights();
  void complete_output(TrainOutput& output) const;
  MetricMap final_metrics(const PhaseWork& work) const;
  PhaseWork whole_run() const;
  int64_t rows_trained() const;

  bool stop_is_requested() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  bool device_has_failed() const;

  Session& session_;
  const Arguments& arguments_;
  Callbacks callbacks_;
  StopFlag stop_;
  RunState state_;
  TrainControl control_;
  LearningRate learning_rate_;
  ActionSchedule schedule_;
  RunLog log_;
  CheckpointPolicy checkpoints_;
  StepEngine engine_;
  std::string missing_metric_;  // error message for Outcome::kLacksMetric
  bool interrupted_ = false;    // true if the run ended because a stop was requested
  double seconds_before_ = 0;   // seconds of training before this process resumed the run
  std::vector<std::string> closing_lines_;
};

}  // namespace plimsoll
