#include "cli/progress.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "cli/command.h"
#include "plimsoll/report.h"

namespace plimsoll::cli {
namespace {

std::string format_mib(std::uintmax_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  return text;
}

}  // namespace

Progress::Progress(bool bar, int64_t plan_bytes) : bar_(bar), plan_bytes_(plan_bytes) {}

void Progress::on_train_begin(int64_t max_steps) {
  max_steps_ = max_steps;
  start_ = std::chrono::steady_clock::now();
}

void Progress::clear_bar() {
  if (bar_drawn_) std::fputs("\r\033[K", stderr);
  bar_drawn_ = false;
}

ProgressContext Progress::context() const {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double ms = recent_.step_ms;
  const auto left = static_cast<double>(max_steps_ - recent_.step);
  return {.tokens_per_second = ms > 0 ? 1000.0 * static_cast<double>(recent_.num_tokens) / ms : 0,
          .memory_bytes = plan_bytes_,
          .elapsed_s = elapsed,
          .remaining_s = num_recent_ > 0 ? 1e-3 * ms / static_cast<double>(num_recent_) * left : -1,
          .ascii = is_ascii_only()};
}

void Progress::on_step_end(const StepInfo& info, TrainControl&) {
  if (starts_anew_) {
    recent_ = info;
    num_recent_ = 1;
  } else {
    StepInfo sums = info;
    sums.step_ms += recent_.step_ms;
    sums.num_tokens += recent_.num_tokens;
    sums.model_flops += recent_.model_flops;
    recent_ = sums;
    ++num_recent_;
  }
  starts_anew_ = false;
  if (!bar_ || verbosity() != Verbosity::kAll) return;
  // Two columns stay free, because the terminal prints "^C" when the user presses Ctrl-C.
  std::fprintf(stderr, "\r\033[K%s", format_progress_bar(recent_, context(), terminal_columns() - 2).c_str());
  std::fflush(stderr);
  bar_drawn_ = true;
}

void Progress::on_log(const LogRecord& record) {
  const auto get = [&](const char* key) {
    const auto it = record.values.find(key);
    return it == record.values.end() ? 0.0 : it->second;
  };
  if (record.values.contains("train_loss")) return;
  clear_bar();
  char line[256];
  if (record.values.contains("loss")) {
    StepInfo info = recent_;
    info.loss = get("loss");
    say(format_progress_line(info, context(), bar_ ? terminal_columns() : 0));
    starts_anew_ = true;
    return;
  }
  std::string text = "eval @ " + std::to_string(record.step) + ":";
  for (const auto& [key, value] : record.values) {
    if (!key.starts_with("eval_") || key.find("_per_second") != std::string::npos ||
        key.starts_with("eval_runtime"))
      continue;
    std::snprintf(line, sizeof line, "  %s %.4f", key.substr(5).c_str(), value);
    text += line;
  }
  std::snprintf(line, sizeof line, "  (%.1f s)", get("eval_runtime"));
  say(text + line);
}

void Progress::on_evaluate_progress(int64_t rows_done, int64_t num_rows) {
  if (!bar_ || verbosity() != Verbosity::kAll) return;
  std::fprintf(stderr, "\r\033[Kevaluating %lld/%lld", static_cast<long long>(rows_done),
               static_cast<long long>(num_rows));
  std::fflush(stderr);
  bar_drawn_ = true;
  if (rows_done == num_rows) clear_bar();
}

void Progress::on_save(const std::string& path) {
  clear_bar();
  say("saved " + path + ": " + describe_checkpoint_sizes(path));
}

std::string describe_checkpoint_sizes(const std::string& path) {
  namespace fs = std::filesystem;
  std::uintmax_t weights = 0;
  std::uintmax_t states = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::uintmax_t bytes = fs::file_size(entry.path(), ignored);
    (entry.path().filename() == "optimizer.safetensors" ? states : weights) += bytes;
  }
  std::string text = format_mib(weights) + " of weights";
  if (fs::exists(path + "/optimizer.safetensors", ignored)) {
    text += ", " + format_mib(states) + " of optimizer states";
  } else if (fs::exists(path + "/run_state.json", ignored)) {
    text += ", no optimizer states, because the run is complete (--save_only_model False keeps them)";
  }
  return text;
}

std::string describe_saved_sizes(const std::string& output_dir) {
  namespace fs = std::filesystem;
  int count = 0;
  std::uintmax_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& folder : fs::directory_iterator(output_dir, ignored)) {
    if (!folder.path().filename().string().starts_with("checkpoint-") || folder.is_symlink(ignored)) continue;
    ++count;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path(), ignored)) {
      if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
    }
  }
  if (count == 0) return "";
  return std::to_string(count) + (count == 1 ? " checkpoint of " : " checkpoints of ") + format_mib(bytes) +
         " in all";
}

void Progress::on_warning(const std::string& text) {
  clear_bar();
  say_warning(text);
}

void Progress::on_train_end() {
  clear_bar();
}

}  // namespace plimsoll::cli
