#include "cli/progress.h"

#include <cstdio>
#include <string>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60), static_cast<long long>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(whole / 60), static_cast<long long>(whole % 60));
  }
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

void Progress::on_step_end(const StepInfo& info, TrainControl&) {
  if (first_step_ < 0) first_step_ = info.step - 1;
  const double now = 1000.0 * static_cast<double>(info.num_tokens) / (info.step_ms > 0 ? info.step_ms : 1);
  tokens_per_second_ = tokens_per_second_ == 0 ? now : 0.9 * tokens_per_second_ + 0.1 * now;
  if (!bar_) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto done = static_cast<double>(info.step - first_step_);
  const double left = elapsed / done * static_cast<double>(info.max_steps - info.step);
  constexpr int kWidth = 24;
  const int filled = static_cast<int>(kWidth * info.step / std::max<int64_t>(1, info.max_steps));
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "╌";
  std::fprintf(stderr, "\r\033[Kstep %lld/%lld %3lld %% %s loss %.3f |g| %.1f lr %.1e %.0f tok/s %.0f MiB %s < %s",
               static_cast<long long>(info.step), static_cast<long long>(info.max_steps),
               static_cast<long long>(100 * info.step / std::max<int64_t>(1, info.max_steps)), bar.c_str(), info.loss,
               info.grad_norm, info.learning_rate, tokens_per_second_, static_cast<double>(plan_bytes_) / 1048576.0,
               clock_text(elapsed).c_str(), clock_text(left).c_str());
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
    if (bar_) return;
    std::snprintf(line, sizeof line, "step %lld/%lld  epoch %.2f  loss %.4f  |g| %.3f  lr %.3e  %.0f tok/s  %.0f MiB",
                  static_cast<long long>(record.step), static_cast<long long>(max_steps_), record.epoch, get("loss"),
                  get("grad_norm"), get("learning_rate"), tokens_per_second_, static_cast<double>(plan_bytes_) / 1048576.0);
    say(line);
    return;
  }
  std::string text = "eval @ " + std::to_string(record.step) + ":";
  for (const auto& [key, value] : record.values) {
    if (!key.starts_with("eval_") || key.ends_with("_per_second") || key == "eval_runtime") continue;
    std::snprintf(line, sizeof line, "  %s %.4f", key.substr(5).c_str(), value);
    text += line;
  }
  std::snprintf(line, sizeof line, "  (%.1f s)", get("eval_runtime"));
  say(text + line);
}

void Progress::on_evaluate_progress(int64_t rows_done, int64_t num_rows) {
  if (!bar_) return;
  std::fprintf(stderr, "\r\033[Kevaluating %lld/%lld", static_cast<long long>(rows_done), static_cast<long long>(num_rows));
  std::fflush(stderr);
  bar_drawn_ = true;
  if (rows_done == num_rows) clear_bar();
}

void Progress::on_save(const std::string& path) {
  clear_bar();
  say("saved " + path);
}

void Progress::on_train_end() { clear_bar(); }

}  // namespace plimsoll::cli
