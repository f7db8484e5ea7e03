// What the training loop keeps: checkpoints, the best of them, and which weights a run ends with.
#include <cmath>

#include "base/file.h"
#include "run/tuning_cache.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace plimsoll {

std::string metric_name(const Arguments& arguments) {
  const std::string& metric = arguments.metric_for_best_model;
  return metric.starts_with("eval_") ? metric : "eval_" + metric;
}

void TrainLoop::update_best(const StepInfo& info, const MetricMap& metrics) {
  // As in Trainer, nothing is called the best until a metric is named or implied (resolve_arguments fills
  // it).
  if (arguments_.metric_for_best_model.empty()) return;
  const auto it = metrics.find(metric_name(arguments_));
  if (it == metrics.end()) {
    std::string names;
    for (const auto& [key, value] : metrics) names += (names.empty() ? "" : ", ") + key;
    throw_error(ErrorCode::kUsage, "--metric_for_best_model {}: the evaluation has no such metric; it has {}",
                arguments_.metric_for_best_model, names);
  }
  if (metric_state_) follow_metric(metric_options_, *metric_state_, it->second);
  const bool greater = arguments_.greater_is_better.value_or(false);
  const bool better = !std::isnan(it->second) &&
                      (!state_.best_metric ||
                       (greater ? it->second > *state_.best_metric : it->second < *state_.best_metric));
  if (!better) return;
  state_.best_metric = it->second;
  state_.best_step = info.step;
  if (arguments_.save_strategy == "best") control_.save = true;
}

void TrainLoop::remember_callbacks() {
  for (const auto& callback : callbacks_) {
    if (!callback->name().empty()) state_.callback_states[callback->name()] = callback->state();
  }
}

CheckpointContents TrainLoop::checkpoint_contents() {
  remember_callbacks();
  state_.has_checkpoint = true;
  state_.saved_at_end = control_.stop || state_.step >= state_.max_steps;
  if (metric_state_) state_.schedule_state = state_values(*metric_state_);
  CheckpointContents contents;
  contents.model = session_.model_contents();
  contents.run = state_.run;
  contents.streamed.push_back(
      {std::string(kTrainerStateFile), [this](const PutText& put) { write_trainer_state(state_, put); }});
  if (!arguments_.save_only_model) {
    contents.optimizer_tensors = state_tensors(session_.executor());
    contents.run_state_json = run_state_json(state_);
    // An empty one too: a run that goes on from here then takes the library's first choices as this one did.
    if (session_.plan().is_on_gpu())
      contents.extra.push_back({kTuningFile, tuning_table_json(session_.plan().request.products.tuning)});
    contents.streamed.push_back(
        {kLogFile, [this](const PutText& put) { write_log(state_.log_history, put); }});
  }
  return contents;
}

void TrainLoop::save(const StepInfo& info) {
  if (saved_step_ == info.step) return;
  const Pause pause(*this);
  FileSystem& files = session_.files();
  const std::string folder = "checkpoint-" + std::to_string(info.step);
  const bool is_best = state_.best_metric && state_.best_step == info.step;
  if (is_best) state_.best_checkpoint = folder;
  last_checkpoint_ = save_checkpoint(files, arguments_.output_dir, info.step, checkpoint_contents());
  saved_step_ = info.step;
  point_link(files, arguments_.output_dir, "last", last_checkpoint_);
  if (is_best) point_link(files, arguments_.output_dir, "best", last_checkpoint_);
  if (arguments_.save_total_limit && *arguments_.save_total_limit > 0) {
    const bool is_here = state_.best_checkpoint.find('/') == std::string::npos;
    rotate_checkpoints(files, arguments_.output_dir, *arguments_.save_total_limit, last_checkpoint_,
                       is_here ? best_checkpoint_path(state_) : "");
  }
  for (const auto& callback : callbacks_) callback->on_save(last_checkpoint_);
}

void TrainLoop::choose_final_weights() {
  const bool stopped_early = state_.step < state_.max_steps;
  const std::string best = state_.best_metric
                               ? fmt::format("the best {} was {:.4g}, at step {}", metric_name(arguments_),
                                             *state_.best_metric, state_.best_step)
                               : "";
  if (!arguments_.load_best_model_at_end) {
    if (!stopped_early) return;
    closing_lines_.push_back(fmt::format("stopped early: the weights are those of step {}, the last{}",
                                         state_.step,
                                         best.empty() || state_.best_step == state_.step
                                             ? ""
                                             : "; " + best + ". --load_best_model_at_end keeps the best"));
    return;
  }
  if (stopped_early)
    closing_lines_.push_back(fmt::format("stopped early, at step {} of {}", state_.step, state_.max_steps));
  const std::string path = best_checkpoint_path(state_);
  const int64_t step = checkpoint_step(path).value_or(state_.step);
  if (step != state_.step) {
    load_saved(session_.executor(), ModelFolder::open(session_.files(), path));
  }
  if (best.empty()) {
    closing_lines_.push_back(
        fmt::format("warning: nothing was evaluated: the weights are those of step {}, the last", step));
  } else if (step == state_.best_step) {
    closing_lines_.push_back(fmt::format("the weights are those of step {}: {}", step, best));
  } else {
    closing_lines_.push_back(
        fmt::format("warning: {}, which was not saved: the weights are those of step {}, {}", best, step,
                    path.empty() ? "the last" : "the best among those saved when it was"));
  }
}

}  // namespace plimsoll
