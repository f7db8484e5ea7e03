#include "train/resume.h"

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "base/units.h"
#include "optim/dynamic_loss_scale.h"
#include "train/rank_agreement.h"
#include "train/weight_loading.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Returns a text such as "begun 2026-11-21 08:15:30 UTC". If an earlier version of Plimsoll wrote the checkpoint, which then contains
// no time, the text states that instead.
std::string describe_begin(const RunIdentity& run) {
  if (run.started.size() < 19) return "of an earlier version of this program";
  return "begun " + run.started.substr(0, 10) + " " + run.started.substr(11, 8) + " UTC";
}

// Returns a list of names such as "checkpoint-100, checkpoint-200 and 3 more".
std::string list_names(const std::vector<ListedCheckpoint>& checkpoints) {
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
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' has the shape {}, but this run's model needs {}; resume with the model "
                "and the labels of that run",
                checkpoint.path, first.name, format_shape(first.found), format_shape(first.wanted));
  }
  if (!report.missing.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' is missing, so the checkpoint belongs to another model; resume with the "
                "model that it was saved from",
                checkpoint.path, report.missing.front());
  }
  if (!report.unused.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' is not part of this run's model, so the checkpoint belongs to another "
                "model; resume with the model that it was saved from",
                checkpoint.path, report.unused.front());
  }
}

bool is_loss_scale(const std::string& state) {
  return state.starts_with(kLossScaleState);
}

// Reads the optimizer states and the loss scale, which is only used with fp16. A run that resumes in another precision drops the loss scale
// of the checkpoint, and a run that changes to fp16 begins with a new one. Optimizer states that the checkpoint does not contain stay zero,
// to which session.begin_anew() has set them.
void read_optimizer(Session& session, const OpenCheckpoint& checkpoint) {
  if (!checkpoint.optimizer) return;
  const SafetensorsFile& optimizer = *checkpoint.optimizer;
  Executor& executor = session.executor();
  std::vector<TensorSource> states = state_tensors(executor);
  const bool has_loss_scale = optimizer.find(std::string(kLossScaleState)) != nullptr;
  if (!has_loss_scale)
    std::erase_if(states, [](const TensorSource& state) { return is_loss_scale(state.name); });
  const auto is_wanted = [&](const StoredTensor& stored) {
    return executor.plan().scales_loss() || !is_loss_scale(stored.name);
  };
  if (std::ssize(states) != std::ranges::count_if(optimizer.tensors(), is_wanted)) {
    throw_error(ErrorCode::kBadData,
                "{}: the saved optimizer state has {}, but this run's optimizer has {}; resume with the "
                "--optim of that run, and with the same parameters frozen (--freeze)",
                checkpoint.path, counted(optimizer.tensors().size(), "tensor"), states.size());
  }
  for (const TensorSource& tensor : states) {
    const StoredTensor* stored = optimizer.find(tensor.name);
    if (stored == nullptr || stored->shape != tensor.shape) {
      throw_error(ErrorCode::kBadData,
                  "{}: the optimizer's state '{}' is missing or has another shape; resume with the --optim "
                  "of that run",
                  checkpoint.path, tensor.name);
    }
    read_stored(executor, tensor.name, 0, optimizer, *stored);
  }
}

// Adds a line for each argument whose value in the saved run differs from that in this run, and a line if the training data differs.
void describe_changes(const RunState& saved, const RunState& now, std::vector<std::string>& lines) {
  for (const ArgumentDifference& difference : diff_arguments(saved.arguments, now.arguments)) {
    const std::string& name = difference.name;
    if (name == "resume_from_checkpoint" || name == "output_dir" || name == "replace_checkpoints" ||
        name == "event_fd" || name == "event_replies")
      continue;
    const bool is_model = name == "model_name_or_path" || name == "config_name";
    lines.push_back(fmt::format(
        "{}--{}: was {}, is now {}: {}", is_model ? "warning: " : "", name,
        difference.before.empty() ? "(not set)" : difference.before,
        difference.after.empty() ? "(not set)" : difference.after,
        is_model ? "the weights are still those of the checkpoint" : "the new value applies from now on"));
  }
  if (saved.data.hash != 0 && now.data.hash != 0 && saved.data.hash != now.data.hash) {
    lines.push_back(
        fmt::format("warning: the training data is not that of the checkpoint (it had {}, now it has {}): "
                    "the run continues at the saved position, in the order of the new data",
                    counted(saved.data.rows, "row"), now.data.rows));
  }
}

// Adds the folder to the name of the best checkpoint in `state`, if it is not the output folder: the best checkpoint is next to the
// checkpoint from which the run resumes. Throws if the best checkpoint is missing or damaged and the run may need it, because the run would
// otherwise notice this only at its end.
void find_best_checkpoint(FileSystem& files, const Arguments& arguments, const std::string& path,
                          RunState& state) {
  if (state.best.checkpoint.empty()) return;
  if (state.best.checkpoint.find('/') == std::string::npos) {
    const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
    std::error_code ignored;
    if (!fs::equivalent(folder, arguments.output_dir, ignored))
      state.best.checkpoint = (folder / state.best.checkpoint).string();
  }
  if (!arguments.load_best_model_at_end) return;
  const std::string best = state.best.checkpoint.find('/') == std::string::npos
                               ? join_path(arguments.output_dir, state.best.checkpoint)
                               : state.best.checkpoint;
  auto damage = find_damage(files, best, VerifyDepth::kSizes);
  for (const ListedCheckpoint& listed : list_checkpoints(files, parent_folder(best))) {
    if (listed.path == best && listed.run != state.run && !damage) damage = "another run has replaced it";
  }
  if (!damage) return;
  throw_error(ErrorCode::kBadData,
              "{}: this was the best checkpoint when {} was saved, and --load_best_model_at_end may need it, "
              "but it cannot be used: {}. Restore it, or leave --load_best_model_at_end out",
              best, path, *damage);
}

}  // namespace

std::string named_model(const Arguments& arguments) {
  return arguments.model_name_or_path.empty() ? arguments.config_name : arguments.model_name_or_path;
}

RunState resumed_state(FileSystem& files, const OpenCheckpoint& checkpoint, const RunState& planned,
                       std::vector<std::string>& lines) {
  const std::string& path = checkpoint.path;
  const Arguments& arguments = planned.arguments;
  RunState state = parse_run_state(checkpoint.run_state_json, join_path(path, kRunStateFile));
  const std::string log = join_path(path, kLogFile);
  if (files.status(log)) state.log_history = read_log(files, log);
  describe_changes(state, planned, lines);
  find_best_checkpoint(files, arguments, path, state);
  state.data.hash = planned.data.hash;
  state.data.rows = planned.data.rows;
  state.max_steps = planned.max_steps;
  state.num_epochs = planned.num_epochs;
  state.has_checkpoint = true;
  if (arguments.ignore_data_skip) state.position = {state.position.epoch, 0};
  return state;
}

std::string describe_resume(const OpenCheckpoint& checkpoint, const RunState& state,
                            const std::string& model) {
  return fmt::format("resuming from {}: step {}{}, epoch {:.2f}, of the run {} with the model {}",
                     checkpoint.path, state.step,
                     state.step > state.max_steps ? "" : fmt::format(" of {}", state.max_steps), state.epoch,
                     describe_begin(state.run), model);
}

void restore_tensors(Session& session, const OpenCheckpoint& checkpoint) {
  session.note_states_read();
  try {
    read_weights(session.executor(), checkpoint);
    read_optimizer(session, checkpoint);
  } catch (...) {
    session.release();
    throw;
  }
}

void check_foreign_checkpoints(FileSystem& files, const RunState& state, RunBegin begin,
                               std::vector<std::string>& lines) {
  const Arguments& arguments = state.arguments;
  const bool is_resumed = begin == RunBegin::kResumed;
  std::vector<ListedCheckpoint> others;
  std::vector<ListedCheckpoint> endangered;
  for (ListedCheckpoint& listed : list_checkpoints(files, arguments.output_dir)) {
    if (listed.run == state.run) continue;
    // The manifest of this checkpoint is damaged, so it is unknown to which run the checkpoint belongs. A run that resumes has already
    // reported why it skipped the checkpoint.
    if (is_resumed && !listed.run) continue;
    if (!is_resumed || listed.step > state.step) endangered.push_back(listed);
    others.push_back(std::move(listed));
  }
  if (others.empty()) return;
  if (!endangered.empty() && !arguments.replace_checkpoints) {
    const std::optional<RunIdentity>& run = endangered.back().run;
    throw_error(ErrorCode::kUsage,
                "{} holds checkpoints of another run{}: {}. This run could write over them. Give another "
                "--output_dir; or --resume_from_checkpoint True to resume from the newest; or "
                "--replace_checkpoints to let this run replace them, step by step",
                arguments.output_dir, run ? " (" + describe_begin(*run) + ")" : "", list_names(endangered));
  }
  lines.push_back(fmt::format(
      "{} in {}, but this run replaces them where it saves the same step: {}; --save_total_limit counts only "
      "checkpoints of this run",
      others.size() == 1 ? "the checkpoint of another run stays" : "the checkpoints of other runs stay",
      arguments.output_dir, list_names(others)));
  if (is_resumed) return;
  for (const char* link : {"best", "last"}) {
    const std::string path = join_path(arguments.output_dir, link);
    if (files.read_link(path)) files.remove_file(path);
  }
}

bool is_end_logged(FileSystem& files, const RunState& state) {
  const std::string path = join_path(state.arguments.output_dir, kLogFile);
  if (!files.status(path)) return false;
  try {
    const LogHistory log = read_log(files, path);
    return !log.empty() && log.back().step == state.step && log.back().values.contains("train_loss");
  } catch (const Error&) {
    return false;
  }
}

void require_equal_beginnings(Session& session, const RunState& state, RunBegin begin) {
  if (session.place().is_alone()) return;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {}", begin == RunBegin::kResumed, state.step, state.position.epoch,
                  state.position.index, state.micro_batches, state.states_begin, state.evaluation_is_due,
                  state.best.step, state.best.metric.value_or(0.0));
  for (const auto& [name, value] : state.callback_states) text += fmt::format("\n{}={}", name, value);
  constexpr std::string_view kRemedy =
      "give every process an --output_dir that all of them can read, such as a folder of a shared file "
      "system";
  const RankFact checkpoint{.name = "the checkpoint", .remedy = kRemedy, .hash = hash64(text)};
  session.require_equal_on_ranks({&checkpoint, 1});
  if (begin == RunBegin::kResumed) {
    const RankFact tensors[] = {fact_of_weights(session.executor(), kRemedy),
                                fact_of_states(session.executor(), kRemedy)};
    session.require_equal_on_ranks(tensors);
  }
  if (!session.setup().arguments.load_best_model_at_end) return;
  const bool sees_folder = session.files().status(session.setup().arguments.output_dir).has_value();
  const RankFact folder{.name = "the output folder", .remedy = kRemedy, .hash = sees_folder ? 1U : 0U};
  session.require_equal_on_ranks({&folder, 1});
}

}  // namespace plimsoll
