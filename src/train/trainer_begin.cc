// How a training loop begins: alone in its output folder, from the start or from a checkpoint, and beside
// what other runs left there.
#include <algorithm>
#include <filesystem>

#include "base/counted.h"
#include "base/file.h"
#include "optim/loss_scale.h"
#include "run/checkpoint_choice.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string model_of(const Arguments& arguments) {
  return arguments.model_name_or_path.empty() ? arguments.config_name : arguments.model_name_or_path;
}

// "begun 2026-11-21 08:15:30 UTC", or what can be said of a run of an earlier version.
std::string began(const RunIdentity& run) {
  if (run.started.size() < 19) return "of an earlier version of this program";
  return "begun " + run.started.substr(0, 10) + " " + run.started.substr(11, 8) + " UTC";
}

// "checkpoint-100, checkpoint-200 and 3 more".
std::string names_of(const std::vector<ListedCheckpoint>& checkpoints) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < checkpoints.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + file_name(checkpoints[i].path);
  }
  return checkpoints.size() > kShown ? fmt::format("{} and {} more", text, checkpoints.size() - kShown)
                                     : text;
}

void read_weights(Executor& executor, const OpenCheckpoint& checkpoint) {
  if (executor.plan().request.model.lora) return load_adapter(executor, checkpoint.model);
  if (checkpoint.model.is_adapter()) {
    throw_error(
        ErrorCode::kBadData,
        "{}: it is the checkpoint of a run with adapters; resume with the --lora_r and other settings of "
        "adapters of that run",
        checkpoint.path);
  }
  const LoadReport report = load_weights(executor, checkpoint.model, OnShapeMismatch::kTreatAsMissing);
  if (!report.mismatched.empty()) {
    const ShapeMismatch& first = report.mismatched.front();
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' has the shape {}, this run's model needs {}; resume with the model and the "
        "labels of that run",
        checkpoint.path, first.name, format_shape(first.found), format_shape(first.wanted));
  }
  if (!report.missing.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' is missing; this checkpoint is of another model, resume with the model "
                "of that run",
                checkpoint.path, report.missing.front());
  }
  if (!report.unused.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' has no place in this run's model; this checkpoint is of another model, "
                "resume with the model of that run",
                checkpoint.path, report.unused.front());
  }
}

bool is_loss_scale(const std::string& state) {
  return state.starts_with(kLossScaleState);
}

// The loss scale is fp16's: a run that goes on in another precision drops it, one that changes to fp16 begins
// with a new one.
void read_optimizer(Executor& executor, const OpenCheckpoint& checkpoint) {
  std::vector<TensorSource> states = state_tensors(executor);
  const bool has_loss_scale = checkpoint.optimizer.find(std::string(kLossScaleState)) != nullptr;
  if (!has_loss_scale)
    std::erase_if(states, [](const TensorSource& state) { return is_loss_scale(state.name); });
  const auto is_wanted = [&](const StoredTensor& stored) {
    return executor.plan().scales_loss() || !is_loss_scale(stored.name);
  };
  if (std::ssize(states) != std::ranges::count_if(checkpoint.optimizer.tensors(), is_wanted)) {
    throw_error(ErrorCode::kBadData,
                "{}: the optimizer's state has {}, this run's optimizer has {}; resume with the "
                "--optim of that run, and with the same parameters frozen (--freeze)",
                checkpoint.path, counted(checkpoint.optimizer.tensors().size(), "tensor"), states.size());
  }
  for (const TensorSource& tensor : states) {
    const StoredTensor* stored = checkpoint.optimizer.find(tensor.name);
    if (stored == nullptr || stored->shape != tensor.shape) {
      throw_error(ErrorCode::kBadData,
                  "{}: the optimizer's state '{}' is missing or has another shape; resume with the --optim "
                  "of that run",
                  checkpoint.path, tensor.name);
    }
    read_stored(executor, tensor.name, 0, checkpoint.optimizer, *stored);
  }
}

// What differs between the run that saved and this one.
void tell_changes(const RunState& saved, const RunState& now, std::vector<std::string>& lines) {
  for (const ArgumentDifference& difference : diff_arguments(saved.arguments, now.arguments)) {
    const std::string& name = difference.name;
    if (name == "resume_from_checkpoint" || name == "output_dir" || name == "replace_checkpoints") continue;
    const bool is_model = name == "model_name_or_path" || name == "config_name";
    lines.push_back(fmt::format("{}--{}: was {}, is now {}: {}", is_model ? "warning: " : "", name,
                                difference.before.empty() ? "(not set)" : difference.before,
                                difference.after.empty() ? "(not set)" : difference.after,
                                is_model ? "the weights are those of the checkpoint all the same"
                                         : "the new value holds from here on"));
  }
  if (saved.data_hash != 0 && now.data_hash != 0 && saved.data_hash != now.data_hash) {
    lines.push_back(fmt::format(
        "warning: the training data is not that of the checkpoint (it had {}, now it has {}): the "
        "run goes on at its place in the order of the new data",
        counted(saved.data_rows, "row"), now.data_rows));
  }
}

}  // namespace

// Weights and states change when nothing but the tensors themselves can refuse the run any more.
std::vector<std::string> TrainLoop::begin() {
  auto [path, lines] = choose_checkpoint(session_.files(), arguments_, VerifyDepth::kHashes);
  std::optional<OpenCheckpoint> checkpoint;
  if (path.empty()) {
    state_.run = new_run_identity();
  } else {
    checkpoint = open_checkpoint(session_.files(), path);
    take_up(*checkpoint, lines);
  }
  respect_other_runs(checkpoint.has_value(), lines);
  tell_unsaved_evaluations(lines);
  session_.begin_anew();
  if (checkpoint) restore(*checkpoint);
  return lines;
}

// What the loop itself goes on with.
void TrainLoop::take_up(const OpenCheckpoint& checkpoint, std::vector<std::string>& lines) {
  FileSystem& files = session_.files();
  const std::string& path = checkpoint.path;
  RunState state = parse_run_state(checkpoint.run_state_json, join_path(path, kRunStateFile));
  const std::string log = join_path(path, kLogFile);
  if (files.status(log)) state.log_history = read_log(files, log);
  tell_changes(state, state_, lines);
  const std::string model = model_of(state.arguments);
  find_best_checkpoint(path, state);
  state.data_hash = state_.data_hash;
  state.data_rows = state_.data_rows;
  state.arguments = arguments_;
  state.max_steps = state_.max_steps;
  state.num_epochs = state_.num_epochs;
  state.has_checkpoint = true;
  if (arguments_.ignore_data_skip) state.position = {state.position.epoch, 0};
  if (metric_state_ && !state.schedule_state.empty())
    metric_state_ = state_from_values(metric_options_, state.schedule_state);
  for (const auto& callback : callbacks_) {
    if (const auto it = state.callback_states.find(callback->name()); it != state.callback_states.end())
      callback->restore(it->second);
  }
  state_ = std::move(state);
  saved_step_ = state_.step;
  last_checkpoint_ = path;
  lines.push_back(fmt::format("resuming from {}: step {}{}, epoch {:.2f}, of the run {} with the model {}",
                              path, state_.step,
                              state_.step > state_.max_steps ? "" : fmt::format(" of {}", state_.max_steps),
                              state_.epoch, began(state_.run), model));
  if (is_complete()) {
    lines.push_back(
        fmt::format("warning: nothing is left to train: training was complete at step {}, this run ends at "
                    "{}. Raise --max_steps or --num_train_epochs to go on",
                    state_.step, state_.max_steps));
  }
}

// Weights, states and log.
void TrainLoop::restore(const OpenCheckpoint& checkpoint) {
  session_.note_states_read();
  try {
    read_weights(session_.executor(), checkpoint);
    read_optimizer(session_.executor(), checkpoint);
  } catch (...) {
    // A part of them is the checkpoint's.
    session_.release();
    throw;
  }
  session_.set_micro_batches_done(state_.micro_batches);
  // Of a run that has ended the log ends with what the checkpoint, saved before the end, does not know.
  if (is_complete() && has_ended()) return;
  write_streamed_file(session_.files(), join_path(arguments_.output_dir, kLogFile),
                      [&](const PutText& put) { write_log(state_.log_history, put); });
}

// The best checkpoint so far lies beside the one that the run goes on from, which need not be the output
// folder.
void TrainLoop::find_best_checkpoint(const std::string& path, RunState& state) {
  if (state.best_checkpoint.empty()) return;
  if (state.best_checkpoint.find('/') == std::string::npos) {
    const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
    std::error_code ignored;
    if (!fs::equivalent(folder, arguments_.output_dir, ignored))
      state.best_checkpoint = (folder / state.best_checkpoint).string();
  }
  if (!arguments_.load_best_model_at_end) return;
  // Found missing at the end, it would be too late.
  const std::string best = state.best_checkpoint.find('/') == std::string::npos
                               ? join_path(arguments_.output_dir, state.best_checkpoint)
                               : state.best_checkpoint;
  auto damage = find_damage(session_.files(), best, VerifyDepth::kSizes);
  for (const ListedCheckpoint& listed : list_checkpoints(session_.files(), parent_folder(best))) {
    if (listed.path == best && listed.run != state.run && !damage) damage = "it is another run's by now";
  }
  if (!damage) return;
  throw_error(
      ErrorCode::kBadData,
      "{}: it was the best checkpoint when {} was saved, and --load_best_model_at_end may need it: {}. "
      "Restore it, or leave --load_best_model_at_end out",
      best, path, *damage);
}

// Checkpoints of other runs are neither written over nor removed unless the user says so.
void TrainLoop::respect_other_runs(bool resumed, std::vector<std::string>& lines) {
  FileSystem& files = session_.files();
  std::vector<ListedCheckpoint> others;
  std::vector<ListedCheckpoint> endangered;
  for (ListedCheckpoint& listed : list_checkpoints(files, arguments_.output_dir)) {
    if (listed.run == state_.run) continue;
    // A damaged manifest does not say whose it is; a run that resumes has told why it skipped it.
    if (resumed && !listed.run) continue;
    if (!resumed || listed.step > state_.step) endangered.push_back(listed);
    others.push_back(std::move(listed));
  }
  if (others.empty()) return;
  if (!endangered.empty() && !arguments_.replace_checkpoints) {
    const std::optional<RunIdentity>& run = endangered.back().run;
    throw_error(ErrorCode::kUsage,
                "{} holds checkpoints of another run{}: {}. This run could write over them. Give another "
                "--output_dir; or --resume_from_checkpoint True to go on from the newest; or "
                "--replace_checkpoints to let this run's take their places, step by step",
                arguments_.output_dir, run ? " (" + began(*run) + ")" : "", names_of(endangered));
  }
  lines.push_back(fmt::format(
      "{} in {}, but for steps that this run saves too: {}; --save_total_limit counts this run's only",
      others.size() == 1 ? "the checkpoint of another run stays" : "the checkpoints of other runs stay",
      arguments_.output_dir, names_of(others)));
  if (resumed) return;
  for (const char* link : {"best", "last"}) {
    const std::string path = join_path(arguments_.output_dir, link);
    if (files.read_link(path)) files.remove_file(path);
  }
}

void TrainLoop::tell_unsaved_evaluations(std::vector<std::string>& lines) const {
  if (!arguments_.load_best_model_at_end || arguments_.save_strategy != "steps") return;
  const int64_t save = interval_steps(arguments_.save_steps, state_.max_steps);
  const int64_t evaluation = interval_steps(arguments_.eval_steps.value_or(0), state_.max_steps);
  if (evaluation <= 0 || save <= evaluation) return;
  lines.push_back(
      fmt::format("warning: --load_best_model_at_end: steps are evaluated every {} but saved every {}: where "
                  "the best step "
                  "is not saved, the best one before it that was is loaded. Make --save_steps {}, or "
                  "--save_strategy best",
                  evaluation, save, evaluation));
}

}  // namespace plimsoll
