#include "train/train_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "device/cuda/cuda_device.h"
#include "io/ckpt/checkpoint.h"
#include "metrics/metrics.h"
#include "run/device_choice.h"
#include "run/stored_weights.h"
#include "train/resume.h"
#include "train/speed.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Callbacks with_early_stopping(Callbacks callbacks, const Arguments& arguments) {
  if (arguments.early_stopping_patience) {
    callbacks.push_back(std::make_shared<EarlyStopping>(
        best_metric_name(arguments), arguments.greater_is_better.value_or(false),
        *arguments.early_stopping_patience, arguments.early_stopping_threshold));
  }
  return callbacks;
}

}  // namespace

TrainLoop::TrainLoop(Session& session, Callbacks callbacks, StopFlag stop)
    : session_(session),
      arguments_(session.setup().arguments),
      callbacks_(with_early_stopping(std::move(callbacks), arguments_)),
      stop_(stop),
      state_(planned_state(session.setup())),
      learning_rate_(arguments_, state_.max_steps, session.plan().request.update.optimizer),
      schedule_(arguments_, state_.max_steps,
                session.setup().data.evaluate ? ValidationData::kPresent : ValidationData::kNone),
      log_(session, callbacks_, state_),
      checkpoints_(session, callbacks_, learning_rate_, state_),
      engine_(session, *this) {
  checkpoints_.store_callbacks();
}

TrainOutput TrainLoop::run(const OnBegin& on_begin) {
  // Only the first rank writes the files of the run.
  std::optional<FolderLock> lock;
  if (session_.place().is_first()) {
    std::filesystem::create_directories(arguments_.output_dir);
    lock.emplace(arguments_.output_dir);
  }
  const std::vector<std::string> lines = begin();
  if (on_begin) on_begin(lines);
  FileSystem& files = session_.files();
  remove_leftovers(files, arguments_.output_dir);
  const bool is_resumed_at_end = is_complete();
  if (is_resumed_at_end && is_end_logged(files, state_)) return finish_completed_run();
  if (state_.step == 0) files.create(join_path(arguments_.output_dir, kLogFile))->close();
  for (const auto& callback : callbacks_) callback->on_train_begin(state_.max_steps);
  const MemoryPhase memory;
  const auto start = Clock::now();
  const int64_t rows_before = rows_trained();
  const int64_t steps_before = state_.step;
  run_steps();
  finish_save();
  session_.begin_phase(RankPhase::kEnd, state_.step);
  log_.warn_waiting_at_end();
  TrainOutput output;
  output.interrupted = interrupted_;
  output.metrics = final_metrics(is_resumed_at_end ? whole_run()
                                                   : PhaseWork{.seconds = seconds_since(start),
                                                               .samples = rows_trained() - rows_before,
                                                               .steps = state_.step - steps_before});
  if (!arguments_.skip_memory_metrics) output.metrics.merge(memory.end("train"));
  if (!output.interrupted) {
    log_.record({.step = state_.step, .epoch = state_.epoch, .values = output.metrics});
    write_streamed_file(files, join_path(arguments_.output_dir, kTrainerStateFile),
                        [&](const PutText& put) { write_trainer_state(state_, put); });
    choose_final_weights();
  }
  complete_output(output);
  output.log_history = std::move(state_.log_history);
  for (const auto& callback : callbacks_) callback->on_train_end();
  return output;
}

// Ends a run that was already complete when it was resumed. The files of the run are not written again.
TrainOutput TrainLoop::finish_completed_run() {
  for (const auto& callback : callbacks_) callback->on_train_begin(state_.max_steps);
  choose_final_weights();
  TrainOutput output;
  output.was_complete = true;
  output.metrics = final_metrics(whole_run());
  complete_output(output);
  output.log_history = read_log(session_.files(), join_path(arguments_.output_dir, kLogFile));
  for (const auto& callback : callbacks_) callback->on_train_end();
  return output;
}

void TrainLoop::choose_final_weights() {
  // The ranks wait for each other twice: until the best checkpoint is complete, and until all ranks have read it.
  session_.wait_for_ranks();
  closing_lines_ = checkpoints_.choose_final_weights();
  session_.wait_for_ranks();
}

void TrainLoop::complete_output(TrainOutput& output) const {
  output.step = state_.step;
  output.last_checkpoint = checkpoints_.last_checkpoint();
  output.best_checkpoint = best_checkpoint_path(state_);
  output.metrics["epoch"] = state_.epoch;
  output.metrics["train_samples"] = static_cast<double>(session_.setup().data.train->num_rows());
}

// Begins the run. All checks that may refuse it are made first, so that a refused run has changed neither weights nor states.
std::vector<std::string> TrainLoop::begin() {
  auto [path, lines] = choose_checkpoint(session_.files(), arguments_, VerifyDepth::kHashes);
  std::optional<OpenCheckpoint> checkpoint;
  if (path.empty()) {
    state_.run = new_run_identity();
  } else {
    checkpoint = open_checkpoint(session_.files(), path);
    resume_from(*checkpoint, lines);
  }
  check_foreign_checkpoints(session_.files(), state_, checkpoint ? RunBegin::kResumed : RunBegin::kNew,
                            lines);
  if (std::string warning = schedule_.unsaved_evaluations_warning(); !warning.empty()) {
    lines.push_back(std::move(warning));
  }
  session_.begin_anew();
  if (checkpoint) restore(*checkpoint);
  // This comparison of the positions and weights of all ranks is also a barrier. After it no rank reads the checkpoint any longer, so the
  // first rank may remove it.
  require_equal_beginnings(session_, state_, checkpoint ? RunBegin::kResumed : RunBegin::kNew);
  return lines;
}

// Restores the state of the run from the checkpoint, but no tensors yet.
void TrainLoop::resume_from(const OpenCheckpoint& checkpoint, std::vector<std::string>& lines) {
  RunState state = resumed_state(session_.files(), checkpoint, state_, lines);
  const std::string model = named_model(state.arguments);
  state.arguments = arguments_;
  learning_rate_.restore(state.schedule_state);
  for (const auto& callback : callbacks_) {
    if (const auto it = state.callback_states.find(callback->name()); it != state.callback_states.end())
      callback->restore(it->second);
  }
  state_ = std::move(state);
  checkpoints_.set_resumed_from(checkpoint.path, state_.step);
  lines.push_back(describe_resume(checkpoint, state_, model));
  if (!checkpoint.optimizer && !is_complete()) {
    state_.states_begin = state_.step;
    lines.push_back(
        fmt::format("warning: {} has no optimizer states, because its run was complete: they begin at zero. "
                    "A run that is to be "
                    "extended keeps them with --save_only_model False",
                    checkpoint.path));
  }
  if (is_complete()) {
    lines.push_back(fmt::format(
        "warning: nothing is left to train: training was already complete at step {}, this run ends at "
        "{}. Raise --max_steps or --num_train_epochs to continue",
        state_.step, state_.max_steps));
  }
}

// Restores weights, optimizer states and the log from the checkpoint.
void TrainLoop::restore(const OpenCheckpoint& checkpoint) {
  restore_tensors(session_, checkpoint);
  session_.set_micro_batches_done(state_.micro_batches);
  // If the run was already complete, its log file ends with a final record that the checkpoint does not contain. The file is
  // therefore kept as it is.
  if (is_complete() && is_end_logged(session_.files(), state_)) return;
  write_streamed_file(session_.files(), join_path(arguments_.output_dir, kLogFile),
                      [&](const PutText& put) { write_log(state_.log_history, put); });
}

void TrainLoop::run_steps() {
  engine_.start(state_.step, state_.states_begin);
  seconds_before_ = state_.totals.seconds;
  if (state_.evaluation_is_due && finish_interrupted_step() == StepEngine::AfterStep::kEnd) return;
  if (state_.step >= state_.max_steps) return;
  engine_.start_batches(state_.position, last_epoch() + 1);
  if (arguments_.eval_on_start && state_.step == 0 && session_.setup().data.evaluate) {
    const StepInfo before{.max_steps = state_.max_steps};
    if (evaluate(before) == Outcome::kInterrupted) {
      save(before);
      interrupted_ = true;
      return;
    }
  }
  engine_.start_step_clock();
  while (!engine_.has_ended()) run_step();
}

void TrainLoop::run_step() {
  explain_failure([this] { engine_.run_step(); });
}

// Waits for the end of a background save.
void TrainLoop::finish_save() {
  if (!checkpoints_.is_saving()) return;
  session_.begin_phase(RankPhase::kCheckpoint, state_.step);
  explain_failure([this] { checkpoints_.finish_save(); });
}

// Calls `work`. If the device or the system fails, adds to the error message how much memory the GPU used and from which checkpoint the
// run can resume.
template <typename Work>
void TrainLoop::explain_failure(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDevice) throw;
    const std::string held = device_has_failed() ? describe_gpu_memory(session_.plan()) : "";
    throw Error(error.code(), error.what() + held + checkpoints_.resume_hint());
  }
}

// Returns true if the GPU has failed, after which every call to it fails. The error that ended the run does not always show this: it may
// come from a save that failed for the same reason. A failure of another rank does not count.
bool TrainLoop::device_has_failed() const {
  try {
    session_.executor().wait();
    return false;
  } catch (const GpuError&) {
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDevice) throw;
    return false;
  }
}

double TrainLoop::learning_rate(int64_t num_updates) {
  return learning_rate_.after(num_updates);
}

// All ranks must give the same answer, because the next step, which the engine then enqueues or not, exchanges data between them. A request
// to stop reaches the ranks at different times, so several ranks ignore it here and agree on it after the step (agree_with_ranks()).
bool TrainLoop::is_followed_by_other_work(const StepInfo& info, const DataPosition& next) {
  const bool stops = session_.place().is_alone() && stop_is_requested();
  return info.step >= state_.max_steps || stops ||
         (arguments_.eval_strategy != "no" && schedule_.may_evaluate(info, next));
}

StepEngine::AfterStep TrainLoop::on_step(const FinishedStep& step) {
  const StepInfo& info = step.info;
  if (info.skipped) log_.warn_skipped_step(info, step.skipped_steps);
  state_.step = info.step;
  state_.micro_batches = step.micro_batches;
  state_.position = step.next;
  state_.epoch = info.epoch;
  state_.totals.tokens += info.num_tokens;
  state_.totals.flos += step.flops;
  state_.totals.loss_sum += info.loss;
  state_.totals.seconds = seconds_before_ + step.seconds;
  log_.add_step(step);
  control_ = {};
  for (const auto& callback : callbacks_) callback->on_step_end(info, control_);
  schedule_.add_due(info, state_.position, control_);
  if (control_.log) log_.log_step(info);
  return finish_step(info);
}

// Evaluates and saves after a step. A request to stop may interrupt the evaluation; a resumed run then repeats the evaluation and, if a
// save was due, the save.
StepEngine::AfterStep TrainLoop::finish_step(const StepInfo& info) {
  const bool evaluates = control_.evaluate && session_.setup().data.evaluate;
  const Outcome outcome = evaluates ? evaluate(info) : Outcome::kCompleted;
  state_.evaluation_is_due = outcome != Outcome::kCompleted;
  state_.save_is_due = state_.evaluation_is_due && control_.save;
  const bool stop = agree_with_ranks() || state_.evaluation_is_due;
  if (control_.save || stop || (control_.stop && arguments_.save_strategy != "no")) save(info);
  if (outcome == Outcome::kLacksMetric) {
    finish_save();
    throw Error(ErrorCode::kUsage, missing_metric_ + checkpoints_.resume_hint());
  }
  interrupted_ = stop && (info.step < state_.max_steps || state_.evaluation_is_due);
  const bool is_end = control_.stop || stop || info.step >= state_.max_steps;
  return is_end ? StepEngine::AfterStep::kEnd : StepEngine::AfterStep::kContinue;
}

// Returns true if any rank was asked to stop, so that all ranks stop after the same step. Also continues a background save if all ranks
// are ready.
bool TrainLoop::agree_with_ranks() {
  const bool is_saving = checkpoints_.is_saving();
  std::array<double, 2> num_ranks{stop_is_requested() ? 1.0 : 0.0,
                                  is_saving && !checkpoints_.is_save_ready() ? 1.0 : 0.0};
  session_.sum_over_ranks(num_ranks);
  if (is_saving && num_ranks[1] == 0) checkpoints_.continue_save();
  return num_ranks[0] > 0;
}

// Repeats an evaluation that a request to stop had interrupted. The checkpoint from which the run resumes was saved after the step and
// before its evaluation ended. If a save was due after the step, the step is saved again with the result of the evaluation.
StepEngine::AfterStep TrainLoop::finish_interrupted_step() {
  control_ = {.evaluate = true, .save = state_.save_is_due};
  if (state_.save_is_due) checkpoints_.forget_saved_step();
  return finish_step({.step = state_.step, .max_steps = state_.max_steps, .epoch = state_.epoch});
}

// Evaluates all validation sets. If the evaluation is interrupted before its last batch, or lacks the metric that chooses the best model,
// nothing is logged or stored.
TrainLoop::Outcome TrainLoop::evaluate(const StepInfo& info) {
  struct Interrupted {};
  const RunSetup& setup = session_.setup();
  const StepEngine::Pause pause(engine_, RankPhase::kEvaluation);
  const auto progress = [&](int64_t done, int64_t all) {
    for (const auto& callback : callbacks_) callback->on_evaluate_progress(done, all);
    // With several ranks an evaluation is not interrupted, because all ranks have to end it together.
    if (done < all && session_.place().is_alone() && stop_is_requested()) throw Interrupted();
  };
  MetricMap metrics;
  // The results of each data set contain its own time and number of rows.
  const auto add = [&](const Dataset& data, std::string_view suffix) {
    metrics.merge(with_suffix(session_.evaluate(data, "eval", nullptr, progress), suffix));
  };
  try {
    add(*setup.data.evaluate, "");
    if (setup.data.evaluate_mismatched) add(*setup.data.evaluate_mismatched, kMismatchedSuffix);
  } catch (const Interrupted&) {
    return Outcome::kInterrupted;
  } catch (const Error& error) {
    // A metric of the calling program failed with kInterrupted, because the request to stop (such as Ctrl-C) also ended the program that
    // computes the metric.
    if (error.code() != ErrorCode::kInterrupted || !session_.place().is_alone()) throw;
    return Outcome::kInterrupted;
  }
  // An evaluation before the first step affects neither the learning rate nor the choice of the best model, as in Trainer. There is no
  // best model if no metric was given for it. If other arguments imply the metric, resolve_arguments() has set --metric_for_best_model.
  const bool chooses_best = info.step > 0 && !arguments_.metric_for_best_model.empty();
  if (chooses_best && !metrics.contains(best_metric_name(arguments_))) return lack_metric(metrics);
  log_.record({.step = info.step, .epoch = info.epoch, .values = metrics});
  if (chooses_best) {
    const bool is_best = checkpoints_.update_best(info.step, metrics);
    learning_rate_.follow(metrics.at(best_metric_name(arguments_)));
    if (is_best && arguments_.save_strategy == "best") control_.save = true;
  }
  for (const auto& callback : callbacks_) callback->on_evaluate(info, metrics, control_);
  return Outcome::kCompleted;
}

// The evaluation has no metric with the name in --metric_for_best_model. This was not checked at the start, because a metric function of
// the calling program might report it. If no metric can report other names any more (has_fixed_names()), for example because the program
// that computed them has ended, the run stops as after a request to stop. Otherwise the name is wrong, which is an error.
TrainLoop::Outcome TrainLoop::lack_metric(const MetricMap& metrics) {
  missing_metric_ = missing_metric_text(arguments_, metrics);
  const bool is_possible = std::ranges::any_of(session_.setup().metrics,
                                               [](const auto& metric) { return !metric->has_fixed_names(); });
  if (is_possible || !session_.place().is_alone()) return Outcome::kLacksMetric;
  for (const auto& callback : callbacks_)
    callback->on_warning(missing_metric_ + "; its source has ended, so the run saves a checkpoint and stops");
  return Outcome::kInterrupted;
}

void TrainLoop::save(const StepInfo& info) {
  if (checkpoints_.is_saved(info.step)) return;
  const StepEngine::Pause pause(engine_, RankPhase::kCheckpoint);
  checkpoints_.save(info.step, control_);
}

// Returns the number of the epoch in which the run ends, computed from its current position and the number of remaining steps.
int64_t TrainLoop::last_epoch() const {
  const RunSetup& setup = session_.setup();
  const int64_t rows_per_step = batches_per_step(arguments_) * arguments_.per_device_train_batch_size;
  const int64_t rows_left = setup.steps.length.rows_per_epoch - state_.position.index;
  const int64_t steps_left = (rows_left + rows_per_step - 1) / rows_per_step;
  const int64_t beyond = state_.max_steps - state_.step - steps_left;
  if (beyond <= 0) return state_.position.epoch;
  return state_.position.epoch +
         (beyond + setup.steps.length.steps_per_epoch - 1) / setup.steps.length.steps_per_epoch;
}

int64_t TrainLoop::rows_trained() const {
  return state_.position.epoch * session_.setup().steps.length.rows_per_epoch + state_.position.index;
}

PhaseWork TrainLoop::whole_run() const {
  return {.seconds = state_.totals.seconds, .samples = rows_trained(), .steps = state_.step};
}

MetricMap TrainLoop::final_metrics(const PhaseWork& work) const {
  MetricMap metrics = speed_metrics("train", work);
  metrics["total_flos"] = state_.totals.flos;
  if (arguments_.include_num_input_tokens_seen != "no") {
    metrics["num_input_tokens_seen"] = static_cast<double>(state_.totals.tokens);
  }
  metrics["train_loss"] = state_.totals.loss_sum / static_cast<double>(std::max<int64_t>(state_.step, 1));
  return metrics;
}

}  // namespace plimsoll
