// Decides which checkpoints a run writes and keeps, which of them is the best, and with which weights the run ends. The code in io/ckpt
// writes the files. An object is used by one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/ckpt/checkpoint.h"
#include "run/run_state.h"
#include "train/checkpoint_saver.h"
#include "train/learning_rate.h"
#include "train/run_log.h"
#include "train/session.h"

namespace plimsoll {

class CheckpointPolicy {
 public:
  // Requires: the arguments outlive the object. A checkpoint stores `state` and `learning_rate`.
  CheckpointPolicy(Session& session, const Callbacks& callbacks, const LearningRate& learning_rate,
                   RunState& state);

  // Compares the metrics of an evaluation with the best so far. Returns true if they are better. If --metric_for_best_model is neither
  // set nor implied by other arguments, no evaluation counts as the best one, as in Trainer. Requires: the metrics contain
  // best_metric_name().
  bool update_best(int64_t step, const MetricMap& metrics);

  // Saves a checkpoint of this step, removes old ones by --save_total_limit and moves the links "last" and "best". Does nothing if the
  // step was saved before. `control` states whether the run ends with this step. With --async_save, the function waits for the previous
  // save, copies the state of the step, and returns while the checkpoint is still being written. All ranks call this function and those
  // for background saves at the same time.
  void save(int64_t step, const TrainControl& control);
  bool is_saved(int64_t step) const { return saved_step_ == step; }

  // These functions control a background save, which begins in save() and ends in finish_save() or in the call of continue_save() that
  // completes the save. continue_save() must be called each time is_save_ready() is true on all ranks. Errors: as save().
  bool is_saving() const { return saver_.is_saving(); }
  bool is_save_ready() const { return saver_.is_ready(); }
  void continue_save() { complete(saver_.advance()); }
  // Waits for the end of a background save, if there is one.
  void finish_save() { complete(saver_.finish()); }
  // Makes the next save() write a checkpoint of the current step even if one was already written.
  void forget_saved_step() { saved_step_ = -1; }
  // Records that the run resumed from the checkpoint `path` of step `step`, so that this step counts as saved.
  void set_resumed_from(const std::string& path, int64_t step);

  // Loads the best weights if --load_best_model_at_end is set. If it is set, or if the run stopped early, returns lines for the user that
  // name the step whose weights the run ends with.
  std::vector<std::string> choose_final_weights();

  // Returns the path of the last checkpoint; "" before the first one.
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  // Returns a line for an error message that explains how to resume after the failure.
  std::string resume_hint() const;

  // Copies the states of all callbacks into the state of the run, which is saved in checkpoints.
  void store_callbacks();

 private:
  bool keeps_optimizer_states() const;
  // Records the path of a checkpoint that is complete and calls the callbacks. Does nothing without a path, which means that no save has
  // been completed.
  void complete(const std::optional<std::string>& path);

  Session& session_;
  const Arguments& arguments_;
  const Callbacks& callbacks_;
  const LearningRate& learning_rate_;
  RunState& state_;
  CheckpointSaver saver_;
  bool has_saved_ = false;
  int64_t saved_step_ = -1;
  std::string last_checkpoint_;
};

// States whether a checkpoint contains the optimizer's states.
enum class OptimizerStates : uint8_t { kKept, kLeftOut };

// States whether the state of the run stays unchanged while the files of a checkpoint are written (kWaits, because training waits),
// or may change before they are written (kChanges, as in a background save).
enum class StateOfRun : uint8_t { kWaits, kChanges };

// Returns the description of a checkpoint of this state in the run's output folder, which CheckpointSaver saves. The checkpoint contains
// the model and, unless --save_only_model is True, what a run needs to resume, with the optimizer's states if `states` is kKept. Once the
// checkpoint is complete, the first rank removes old checkpoints by --save_total_limit and moves the links "last" and, if this step is the
// best, "best". With StateOfRun::kWaits, `state` must stay unchanged until the checkpoint is complete.
CheckpointOrder order_checkpoint(Session& session, RunState& state, OptimizerStates states,
                                 StateOfRun during = StateOfRun::kWaits);

// Returns the state of a run that has not taken any step.
RunState planned_state(const RunSetup& setup);

// Returns the metric that decides which model is best, under its name in the log.
std::string best_metric_name(const Arguments& arguments);
// Returns the error message for an evaluation whose metrics do not contain best_metric_name().
std::string missing_metric_text(const Arguments& arguments, const MetricMap& metrics);

}  // namespace plimsoll
