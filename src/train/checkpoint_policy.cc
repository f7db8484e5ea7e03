#include "train/checkpoint_policy.h"

#include <cmath>
#include <utility>

#include "base/file.h"
#include "run/caches.h"
#include "train/weight_loading.h"

namespace plimsoll {

std::string best_metric_name(const Arguments& arguments) {
  const std::string& metric = arguments.metric_for_best_model;
  return metric.starts_with("eval_") ? metric : "eval_" + metric;
}

std::string missing_metric_text(const Arguments& arguments, const MetricMap& metrics) {
  std::string names;
  for (const auto& [key, value] : metrics) names += (names.empty() ? "" : ", ") + key;
  return fmt::format("--metric_for_best_model {}: the evaluation has no such metric; it has {}",
                     arguments.metric_for_best_model, names);
}

CheckpointPolicy::CheckpointPolicy(Session& session, const Callbacks& callbacks,
                                   const LearningRate& learning_rate, RunState& state)
    : session_(session),
      arguments_(session.setup().arguments),
      callbacks_(callbacks),
      learning_rate_(learning_rate),
      state_(state),
      saver_(session) {}

bool CheckpointPolicy::update_best(int64_t step, const MetricMap& metrics) {
  const double value = metrics.at(best_metric_name(arguments_));
  const bool is_greater_better = arguments_.greater_is_better.value_or(false);
  const bool is_better =
      !std::isnan(value) && (!state_.best.metric ||
                             (is_greater_better ? value > *state_.best.metric : value < *state_.best.metric));
  if (!is_better) return false;
  state_.best.metric = value;
  state_.best.step = step;
  return true;
}

void CheckpointPolicy::store_callbacks() {
  for (const auto& callback : callbacks_) {
    if (!callback->name().empty()) state_.callback_states[callback->name()] = callback->state();
  }
}

// With AdamW, the optimizer's states are twice as large as the weights. The last checkpoint of a complete run therefore omits the states if
// the learning rate has decayed to its end, because further training then needs a new schedule and the states would hardly be of use. The
// states are kept if --save_only_model False is given explicitly.
bool CheckpointPolicy::keeps_optimizer_states() const {
  const bool is_complete = state_.step >= state_.max_steps && !state_.evaluation_is_due;
  return arguments_.save_only_model.has_value() || !is_complete || !learning_rate_.has_decayed(state_.step);
}

RunState planned_state(const RunSetup& setup) {
  RunState state;
  state.arguments = setup.arguments;
  state.max_steps = setup.steps.length.max_steps;
  state.num_epochs = static_cast<int64_t>(std::ceil(setup.steps.length.num_epochs));
  state.data.hash = setup.data.train_hash;
  state.data.rows = setup.steps.length.rows_per_epoch;
  return state;
}

namespace {

// Adds a text file that describes the state of the run. The text is made while the checkpoint is written, or immediately if the state
// will change before that.
void add_text(CheckpointContents& contents, StateOfRun during, std::string_view name,
              std::function<void(const PutText& put)> write) {
  if (during == StateOfRun::kWaits) {
    contents.streamed.push_back({std::string(name), std::move(write)});
    return;
  }
  NamedText& text = contents.extra.emplace_back(NamedText{.name = std::string(name), .text = {}});
  write([&](std::string_view piece) { text.text += piece; });
}

CheckpointContents contents_of(Session& session, const RunState& state, OptimizerStates states,
                               StateOfRun during) {
  CheckpointContents contents;
  contents.model = session.model_contents();
  contents.run = state.run;
  add_text(contents, during, kTrainerStateFile,
           [&state](const PutText& put) { write_trainer_state(state, put); });
  if (state.arguments.save_only_model.value_or(false)) return contents;
  contents.has_optimizer_states = states == OptimizerStates::kKept;
  if (contents.has_optimizer_states) contents.optimizer_tensors = state_tensors(session.executor());
  contents.run_state_json = run_state_json(state);
  // The tuning table (measured algorithms of matrix products) is saved even if it is empty. If it is empty, a run that resumes from the
  // checkpoint measures nothing and uses the library's default algorithms, as this run does.
  if (session.plan().is_on_gpu())
    contents.extra.push_back({kTuningFile, tuning_table_json(session.plan().request.products.tuning)});
  add_text(contents, during, kLogFile, [&state](const PutText& put) { write_log(state.log_history, put); });
  return contents;
}

}  // namespace

CheckpointOrder order_checkpoint(Session& session, RunState& state, OptimizerStates states,
                                 StateOfRun during) {
  const std::string& output_dir = state.arguments.output_dir;
  const bool is_best = state.best.metric && state.best.step == state.step;
  if (is_best) state.best.checkpoint = "checkpoint-" + std::to_string(state.step);
  state.has_checkpoint = true;
  const int64_t limit = state.arguments.save_total_limit.value_or(0);
  const bool is_in_output_dir = state.best.checkpoint.find('/') == std::string::npos;
  const std::string best = is_in_output_dir ? best_checkpoint_path(state) : "";
  return {.output_folder = output_dir,
          .step = state.step,
          .contents = contents_of(session, state, states, during),
          .after = [&files = session.files(), output_dir, is_best, limit, best](const std::string& saved) {
            point_link(files, output_dir, "last", saved);
            if (is_best) point_link(files, output_dir, "best", saved);
            if (limit > 0) rotate_checkpoints(files, output_dir, limit, saved, best);
          }};
}

void CheckpointPolicy::save(int64_t step, const TrainControl& control) {
  if (is_saved(step)) return;
  PLIMSOLL_CHECK(step == state_.step,
                 "only the current step can be saved, but step {} is to be saved at step {}", step,
                 state_.step);
  finish_save();
  store_callbacks();
  state_.saved_at_end = control.stop || state_.step >= state_.max_steps;
  learning_rate_.store(state_.schedule_state);
  const std::string& output_dir = arguments_.output_dir;
  const bool is_in_background = saver_.saves_in_background(output_dir);
  if (!std::exchange(has_saved_, true)) {
    if (const std::string remark = saver_.remark(output_dir); !remark.empty()) {
      for (const auto& callback : callbacks_) callback->on_warning(remark);
    }
  }
  CheckpointOrder order = order_checkpoint(
      session_, state_, keeps_optimizer_states() ? OptimizerStates::kKept : OptimizerStates::kLeftOut,
      is_in_background ? StateOfRun::kChanges : StateOfRun::kWaits);
  if (is_in_background) {
    saver_.start(std::move(order));
    saved_step_ = step;
    return;
  }
  const std::string path = saver_.save(std::move(order));
  saved_step_ = step;
  complete(path);
}

void CheckpointPolicy::complete(const std::optional<std::string>& path) {
  if (!path) return;
  last_checkpoint_ = *path;
  for (const auto& callback : callbacks_) callback->on_save(last_checkpoint_);
}

void CheckpointPolicy::set_resumed_from(const std::string& path, int64_t step) {
  last_checkpoint_ = path;
  saved_step_ = step;
}

std::string CheckpointPolicy::resume_hint() const {
  if (last_checkpoint_.empty()) return "\n  no checkpoint was saved before";
  return fmt::format(
      "\n  {} is complete{}", last_checkpoint_,
      arguments_.save_only_model.value_or(false) ? "" : ": resume with --resume_from_checkpoint True");
}

std::vector<std::string> CheckpointPolicy::choose_final_weights() {
  std::vector<std::string> lines;
  const bool stopped_early = state_.step < state_.max_steps;
  const std::string best =
      state_.best.metric ? fmt::format("the best {} was {:.4g}, at step {}", best_metric_name(arguments_),
                                       *state_.best.metric, state_.best.step)
                         : "";
  if (!arguments_.load_best_model_at_end) {
    if (!stopped_early) return lines;
    lines.push_back(
        fmt::format("stopped early: the weights are those of step {}, the last{}", state_.step,
                    best.empty() || state_.best.step == state_.step
                        ? ""
                        : "; " + best + ". Set --load_best_model_at_end to keep the best weights"));
    return lines;
  }
  if (stopped_early)
    lines.push_back(fmt::format("stopped early, at step {} of {}", state_.step, state_.max_steps));
  const std::string path = best_checkpoint_path(state_);
  const int64_t step = checkpoint_step(path).value_or(state_.step);
  if (step != state_.step) {
    load_saved(session_.executor(), ModelFolder::open(session_.files(), path));
  }
  if (best.empty()) {
    lines.push_back(
        fmt::format("warning: --load_best_model_at_end has no effect because nothing was evaluated: the "
                    "weights are those of the last step, {}",
                    step));
  } else if (step == state_.best.step) {
    lines.push_back(fmt::format("the weights are those of step {}: {}", step, best));
  } else {
    lines.push_back(fmt::format("warning: {}, which was not saved: the weights are those of step {}, {}",
                                best, step,
                                path.empty() ? "the last" : "the last saved step that was the best so far"));
  }
  return lines;
}

}  // namespace plimsoll
