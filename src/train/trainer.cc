#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "device/cuda/cuda_device.h"
#include "graph/ops/op.h"
#include "io/ckpt/folder_lock.h"
#include "run/device_choice.h"
#include "run/lr_schedule.h"
#include "show/report/result_files.h"
#include "train/memory_deltas.h"
#include "train/speed.h"
#include "train/weights.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

double plan_flops(const ProgramPlan& program, const Bucket& bucket) {
  double flops = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.graph.ops()[i];
    // Updates may stand in the forward pass.
    if (op.segment == Segment::kOptimizer || program.ops[i].is_deferred) continue;
    flops += schema_of(op).flops({program.graph, op}, bucket);
  }
  return flops;
}

TrainLoop::TrainLoop(Session& session, std::vector<std::shared_ptr<Callback>> callbacks, StopFlag stop)
    : session_(session),
      arguments_(session.setup().arguments),
      callbacks_(std::move(callbacks)),
      stop_(stop) {
  state_.arguments = arguments_;
  state_.max_steps = session.setup().max_steps;
  state_.num_epochs = static_cast<int64_t>(std::ceil(session.setup().num_epochs));
  state_.data_hash = session.setup().train_data_hash;
  state_.data_rows = session.setup().rows_per_epoch;
  const RunSchedule schedule = run_schedule(arguments_, state_.max_steps);
  if (const auto* by_metric = std::get_if<MetricScheduleOptions>(&schedule)) {
    metric_options_ = *by_metric;
    metric_state_ = start_metric_schedule(metric_options_, arguments_.learning_rate);
  } else {
    schedule_ = std::get<Schedule>(schedule);
  }
  if (arguments_.early_stopping_patience) {
    callbacks_.push_back(std::make_shared<EarlyStopping>(
        metric_name(arguments_), arguments_.greater_is_better.value_or(false),
        *arguments_.early_stopping_patience, arguments_.early_stopping_threshold));
  }
  remember_callbacks();
  const PlanRequest& request = session.plan().request;
  if (session.plan().is_on_gpu()) gpu_log_.emplace(request.device.gpu.uuid, request.labels.device);
}

// A step that is skipped for its loss scale counts as a step but moves the schedule no further, as in
// Trainer.
int64_t TrainLoop::updates_done() const {
  return state_.step - skipped_steps_;
}

double TrainLoop::learning_rate() const {
  const double scheduled = metric_state_
                               ? metric_state_->learning_rate
                               : arguments_.learning_rate * schedule_multiplier(*schedule_, updates_done());
  return learning_rate_of_step(session_.plan().request.update.optimizer, scheduled, updates_done() + 1);
}

// The end of the run ends its epoch too, as in Trainer. `next` is where the batch after the step lies.
bool TrainLoop::is_due(const std::string& strategy, double setting, const StepInfo& info,
                       const DataPosition& next) const {
  if (strategy == "epoch") return next.index == 0 || info.step >= state_.max_steps;
  if (strategy != "steps") return false;
  const int64_t interval = interval_steps(setting, state_.max_steps);
  return interval > 0 && info.step % interval == 0;
}

// Returns false, and leaves no trace, where an interrupt ended it before its last batch.
bool TrainLoop::evaluate(const StepInfo& info) {
  struct Interrupted {};
  const RunSetup& setup = session_.setup();
  const Pause pause(*this);
  const auto progress = [&](int64_t done, int64_t all) {
    for (const auto& callback : callbacks_) callback->on_evaluate_progress(done, all);
    if (done < all && stop_is_requested()) throw Interrupted();
  };
  MetricMap metrics;
  // Each set has its own time and rows.
  const auto add = [&](const Dataset& data, std::string_view suffix) {
    metrics.merge(with_suffix(session_.evaluate(data, "eval", nullptr, progress), suffix));
  };
  try {
    add(*setup.evaluate, "");
    if (setup.evaluate_mismatched) add(*setup.evaluate_mismatched, kMismatchedSuffix);
  } catch (const Interrupted&) {
    return false;
  }
  record({.step = info.step, .epoch = info.epoch, .values = metrics});
  // An evaluation before the first step moves neither the learning rate nor the best model, as in Trainer.
  if (info.step > 0) update_best(info, metrics);
  for (const auto& callback : callbacks_) callback->on_evaluate(info, metrics, control_);
  return true;
}

void TrainLoop::end_of_step_control(const StepInfo& info) {
  const bool last = info.step >= state_.max_steps;
  if (is_due(arguments_.logging_strategy, arguments_.logging_steps, info, state_.position) ||
      (info.step == 1 && arguments_.logging_first_step)) {
    control_.log = true;
  }
  const bool delayed = arguments_.eval_strategy == "epoch"
                           ? info.epoch < arguments_.eval_delay
                           : static_cast<double>(info.step) < arguments_.eval_delay;
  const bool evaluates = arguments_.eval_strategy != "no" && session_.setup().evaluate;
  if (evaluates && !delayed &&
      (last || is_due(arguments_.eval_strategy, arguments_.eval_steps.value_or(0), info, state_.position))) {
    control_.evaluate = true;
  }
  if (is_due(arguments_.save_strategy, arguments_.save_steps, info, state_.position)) control_.save = true;
  if (last && arguments_.save_strategy != "no" && arguments_.save_strategy != "best") control_.save = true;
}

void TrainLoop::after_step(const StepInfo& info) {
  control_ = {};
  for (const auto& callback : callbacks_) callback->on_step_end(info, control_);
  end_of_step_control(info);
  if (control_.log) log_step(info);
  finish_step(info);
}

// The part of a step's end that an interrupt may cut off and that a resumed run makes up for.
void TrainLoop::finish_step(const StepInfo& info) {
  const bool evaluates = control_.evaluate && session_.setup().evaluate;
  state_.evaluation_is_due = evaluates && !evaluate(info);
  state_.save_is_due = state_.evaluation_is_due && control_.save;
  const bool stop = stop_is_requested();
  if (control_.save || stop || (control_.stop && arguments_.save_strategy != "no")) save(info);
  end_ = control_.stop || stop || info.step >= state_.max_steps;
  interrupted_ = stop && (info.step < state_.max_steps || state_.evaluation_is_due);
}

// The checkpoint was saved between a step and its evaluation. Where the step had to be saved for its own
// sake, it is saved again, with what the evaluation found.
void TrainLoop::finish_cut_off_step() {
  control_ = {.evaluate = true, .save = state_.save_is_due};
  if (state_.save_is_due) saved_step_ = -1;
  finish_step({.step = state_.step, .max_steps = state_.max_steps, .epoch = state_.epoch});
}

TrainOutput TrainLoop::run(const OnBegin& on_begin) {
  std::filesystem::create_directories(arguments_.output_dir);
  const FolderLock lock(arguments_.output_dir);
  const std::vector<std::string> lines = begin();
  if (on_begin) on_begin(lines);
  FileSystem& files = session_.files();
  remove_leftovers(files, arguments_.output_dir);
  const bool is_resumed_at_end = is_complete();
  if (is_resumed_at_end && has_ended()) return leave_as_it_was();
  if (state_.step == 0) files.create(join_path(arguments_.output_dir, kLogFile))->close();
  for (const auto& callback : callbacks_) callback->on_train_begin(state_.max_steps);
  const MemoryPhase memory;
  const auto start = Clock::now();
  const int64_t rows_before = rows_trained();
  const int64_t steps_before = state_.step;
  take_steps();
  warn(waiting_.at_end(arguments_.dataloader_num_workers));
  TrainOutput output;
  output.interrupted = interrupted_;
  output.step = state_.step;
  output.last_checkpoint = last_checkpoint_;
  output.metrics = final_metrics(is_resumed_at_end ? whole_run()
                                                   : PhaseWork{.seconds = ms_since(start) / 1000.0,
                                                               .samples = rows_trained() - rows_before,
                                                               .steps = state_.step - steps_before});
  if (!arguments_.skip_memory_metrics) output.metrics.merge(memory.end("train"));
  if (!output.interrupted) {
    record({.step = state_.step, .epoch = state_.epoch, .values = output.metrics});
    write_streamed_file(files, join_path(arguments_.output_dir, kTrainerStateFile),
                        [&](const PutText& put) { write_trainer_state(state_, put); });
    choose_final_weights();
  }
  output.best_checkpoint = best_checkpoint_path(state_);
  output.metrics["epoch"] = state_.epoch;
  output.metrics["train_samples"] = static_cast<double>(session_.setup().train->num_rows());
  output.log_history = std::move(state_.log_history);
  for (const auto& callback : callbacks_) callback->on_train_end();
  return output;
}

// Whether the log in the output folder tells of the end that the run stands at: one that was killed between
// its last checkpoint and its end has it still before it.
bool TrainLoop::has_ended() const {
  const std::string path = join_path(arguments_.output_dir, kLogFile);
  if (!session_.files().status(path)) return false;
  try {
    const LogHistory log = read_log(session_.files(), path);
    return !log.empty() && log.back().step == state_.step && log.back().values.contains("train_loss");
  } catch (const Error&) {
    return false;
  }
}

PhaseWork TrainLoop::whole_run() const {
  return {.seconds = state_.seconds, .samples = rows_trained(), .steps = state_.step};
}

// What a second end of the same run would write over was true of the first.
TrainOutput TrainLoop::leave_as_it_was() {
  for (const auto& callback : callbacks_) callback->on_train_begin(state_.max_steps);
  choose_final_weights();
  TrainOutput output;
  output.step = state_.step;
  output.was_complete = true;
  output.metrics = final_metrics(whole_run());
  output.metrics["epoch"] = state_.epoch;
  output.metrics["train_samples"] = static_cast<double>(session_.setup().train->num_rows());
  output.last_checkpoint = last_checkpoint_;
  output.best_checkpoint = best_checkpoint_path(state_);
  output.log_history = read_log(session_.files(), join_path(arguments_.output_dir, kLogFile));
  for (const auto& callback : callbacks_) callback->on_train_end();
  return output;
}

void TrainLoop::take_steps() {
  begin_ = Clock::now();
  seconds_before_ = state_.seconds;
  skipped_steps_ = session_.executor().skipped_steps();
  end_ = false;
  if (state_.evaluation_is_due) finish_cut_off_step();
  if (end_ || state_.step >= state_.max_steps) return;
  session_.start_batches(state_.position, last_epoch() + 1);
  for (int i = 0; i < (session_.plan().runs_ahead() ? 2 : 1); ++i) batches_.push_back(session_.make_batch());
  if (arguments_.eval_on_start && state_.step == 0 && session_.setup().evaluate) {
    const StepInfo before{.max_steps = state_.max_steps};
    if (!evaluate(before)) {
      save(before);
      interrupted_ = true;
      return;
    }
  }
  last_finish_ = Clock::now();
  while (!end_) whole_step();
}

// Where the device or the system fails, the error says what the GPU held and from where the run can go on.
void TrainLoop::whole_step() {
  try {
    take_step();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDevice) throw;
    const std::string held = device_has_failed() ? planned_beside_held(session_.plan()) : "";
    throw Error(error.code(), error.what() + held + place_to_go_on_from());
  }
}

// A GPU that failed fails every call from then on. The error itself need not say so: one that a save met is
// that of the save.
bool TrainLoop::device_has_failed() const {
  try {
    session_.executor().wait();
    return false;
  } catch (const GpuError&) {
    return true;
  }
}

std::string TrainLoop::place_to_go_on_from() const {
  if (last_checkpoint_.empty()) return "\n  nothing was saved before";
  return fmt::format("\n  {} is whole{}", last_checkpoint_,
                     arguments_.save_only_model ? "" : ": go on with --resume_from_checkpoint True");
}

// The epoch in which the last step lies, counted from where the run stands.
int64_t TrainLoop::last_epoch() const {
  const RunSetup& setup = session_.setup();
  const int64_t rows_per_step =
      arguments_.gradient_accumulation_steps * arguments_.per_device_train_batch_size;
  const int64_t rows_left = setup.rows_per_epoch - state_.position.index;
  const int64_t steps_left = (rows_left + rows_per_step - 1) / rows_per_step;
  const int64_t beyond = state_.max_steps - state_.step - steps_left;
  if (beyond <= 0) return state_.position.epoch;
  return state_.position.epoch + (beyond + setup.steps_per_epoch - 1) / setup.steps_per_epoch;
}

int64_t TrainLoop::rows_trained() const {
  return state_.position.epoch * session_.setup().rows_per_epoch + state_.position.index;
}

MetricMap TrainLoop::final_metrics(const PhaseWork& work) const {
  MetricMap metrics = speed_metrics("train", work);
  metrics["total_flos"] = state_.total_flos;
  if (arguments_.include_num_input_tokens_seen != "no") {
    metrics["num_input_tokens_seen"] = static_cast<double>(state_.tokens_seen);
  }
  metrics["train_loss"] = state_.loss_sum / static_cast<double>(std::max<int64_t>(state_.step, 1));
  return metrics;
}

}  // namespace plimsoll
