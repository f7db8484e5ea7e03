// What a run tells while it trains: records of its log, and warnings.
#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "optim/loss_scale.h"
#include "show/report/result_files.h"
#include "train/speed.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

void append_text(FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.open_append(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

}  // namespace

void TrainLoop::tell_skipped(const StepInfo& info) const {
  const std::string text = fmt::format(
      "step {}: the gradients overflow fp16 at the loss scale {:g}: the step is skipped ({} so far), the "
      "scale is {:g} "
      "from here on",
      info.step, info.loss_scale, skipped_steps_, std::max(info.loss_scale / 2, kSmallestLossScale));
  warn(text);
}

void TrainLoop::record(LogRecord entry) {
  if (arguments_.include_num_input_tokens_seen != "no") {
    entry.values["num_input_tokens_seen"] = static_cast<double>(state_.tokens_seen);
  }
  state_.log_history.push_back(entry);
  append_text(session_.files(), join_path(arguments_.output_dir, kLogFile), log_line(entry));
  for (const auto& callback : callbacks_) callback->on_log(entry);
}

// "" is no warning.
void TrainLoop::warn(const std::string& text) const {
  if (text.empty()) return;
  for (const auto& callback : callbacks_) callback->on_warning(text);
}

void TrainLoop::log_step(const StepInfo& info) {
  LogRecord entry{.step = info.step, .epoch = info.epoch, .values = {}};
  entry.values["loss"] =
      state_.loss_sum_since_log / static_cast<double>(std::max<int64_t>(state_.steps_since_log, 1));
  // What overflowed has no norm; the files say null.
  entry.values["grad_norm"] = std::isfinite(info.grad_norm) ? info.grad_norm : std::nan("");
  entry.values["learning_rate"] = info.learning_rate;
  if (session_.plan().scales_loss()) {
    entry.values["loss_scale"] = info.loss_scale;
    entry.values["skipped_steps"] = static_cast<double>(skipped_steps_);
  }
  if (arguments_.include_num_input_tokens_seen != "no") {
    const double seconds = std::max(state_.seconds, 1e-9);
    entry.values["train_runtime"] = std::round(10000.0 * seconds) / 10000.0;
    entry.values["train_tokens_per_second"] =
        std::round(1000.0 * static_cast<double>(state_.tokens_seen) / seconds) / 1000.0;
  }
  if (time_since_log_ms_ > 0) {
    entry.values["tokens_per_second"] = 1000.0 * static_cast<double>(tokens_since_log_) / time_since_log_ms_;
    entry.values["data_wait_fraction"] = wait_since_log_ms_ / time_since_log_ms_;
    if (info.model_flops > 0 && info.peak_flops_per_s > 0)
      entry.values["mfu"] = 1e3 * model_flops_since_log_ / (info.peak_flops_per_s * time_since_log_ms_);
    warn(waiting_.at_log(arguments_.dataloader_num_workers));
    entry.values["unused_row_fraction"] =
        1.0 - static_cast<double>(tokens_since_log_) / static_cast<double>(rows_since_log_);
  }
  state_.loss_sum_since_log = 0;
  state_.steps_since_log = 0;
  tokens_since_log_ = 0;
  rows_since_log_ = 0;
  wait_since_log_ms_ = 0;
  time_since_log_ms_ = 0;
  model_flops_since_log_ = 0;
  if (gpu_log_) {
    for (const std::string& warning : gpu_log_->add(entry)) warn(warning);
  }
  record(entry);
}

}  // namespace plimsoll
