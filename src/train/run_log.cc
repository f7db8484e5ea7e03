#include "train/run_log.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "optim/dynamic_loss_scale.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

void append_text(FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.open_append(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

}  // namespace

RunLog::RunLog(const Session& session, const Callbacks& callbacks, RunState& state)
    : session_(session), arguments_(session.setup().arguments), callbacks_(callbacks), state_(state) {
  const PlanRequest& request = session.plan().request;
  if (session.plan().is_on_gpu()) gpu_log_.emplace(request.device.gpu.uuid, session.setup().device.label);
}

void RunLog::add_step(const FinishedStep& step) {
  const StepInfo& info = step.info;
  skipped_steps_ = step.skipped_steps;
  state_.since_log.loss_sum += info.loss;
  ++state_.since_log.steps;
  sums_.z_loss += info.z_loss;
  ++sums_.steps;
  sums_.rows += info.num_rows_computed;
  sums_.tokens += info.num_tokens;
  sums_.wait_ms += info.data_wait_ms;
  sums_.time_ms += info.step_ms;
  sums_.model_flops += info.model_flops;
  waiting_.add(info.data_wait_ms, info.step_ms);
}

void RunLog::warn_skipped_step(const StepInfo& info, int64_t num_skipped) const {
  warn(fmt::format(
      "step {}: the gradients overflow fp16 with the loss scale {:g}: the step is skipped ({} so far), and "
      "the loss scale is reduced to {:g}",
      info.step, info.loss_scale, num_skipped, std::max(info.loss_scale / 2, kSmallestLossScale)));
}

void RunLog::warn_waiting_at_end() {
  warn(waiting_.at_end(arguments_.dataloader_num_workers));
}

void RunLog::record(LogRecord entry) {
  if (arguments_.include_num_input_tokens_seen != "no") {
    entry.values["num_input_tokens_seen"] = static_cast<double>(state_.totals.tokens);
  }
  state_.log_history.push_back(entry);
  append_text(session_.files(), join_path(arguments_.output_dir, kLogFile), log_line(entry));
  if (reports_to_tensorboard(arguments_) && session_.place().is_first()) {
    if (!tensorboard_) tensorboard_.emplace(session_);
    tensorboard_->add(entry);
  }
  for (const auto& callback : callbacks_) callback->on_log(entry);
}

void RunLog::warn(const std::string& text) const {
  if (text.empty()) return;
  for (const auto& callback : callbacks_) callback->on_warning(text);
}

void RunLog::log_step(const StepInfo& info) {
  LogRecord entry{.step = info.step, .epoch = info.epoch, .values = {}};
  entry.values["loss"] =
      state_.since_log.loss_sum / static_cast<double>(std::max<int64_t>(state_.since_log.steps, 1));
  if (arguments_.z_loss_coef > 0.0)
    entry.values["z_loss"] = sums_.z_loss / static_cast<double>(std::max<int64_t>(sums_.steps, 1));
  // If gradients overflowed, the gradient norm is infinite or NaN. It is then stored as NaN, which log files contain as null.
  entry.values["grad_norm"] = std::isfinite(info.grad_norm) ? info.grad_norm : std::nan("");
  entry.values["learning_rate"] = info.learning_rate;
  if (session_.plan().scales_loss()) {
    entry.values["loss_scale"] = info.loss_scale;
    entry.values["skipped_steps"] = static_cast<double>(skipped_steps_);
  }
  if (arguments_.include_num_input_tokens_seen != "no") {
    const double seconds = std::max(state_.totals.seconds, 1e-9);
    entry.values["train_runtime"] = std::round(10000.0 * seconds) / 10000.0;
    entry.values["train_tokens_per_second"] =
        std::round(1000.0 * static_cast<double>(state_.totals.tokens) / seconds) / 1000.0;
  }
  if (sums_.time_ms > 0) {
    entry.values["tokens_per_second"] = 1000.0 * static_cast<double>(sums_.tokens) / sums_.time_ms;
    entry.values["data_wait_fraction"] = sums_.wait_ms / sums_.time_ms;
    if (info.model_flops > 0 && info.peak_flops_per_s > 0)
      entry.values["mfu"] = 1e3 * sums_.model_flops / (info.peak_flops_per_s * sums_.time_ms);
    warn(waiting_.at_log(arguments_.dataloader_num_workers));
    entry.values["unused_row_fraction"] =
        1.0 - static_cast<double>(sums_.tokens) / static_cast<double>(sums_.rows);
  }
  state_.since_log.loss_sum = 0;
  state_.since_log.steps = 0;
  sums_ = {};
  if (gpu_log_) {
    for (const std::string& warning : gpu_log_->add(entry)) warn(warning);
  }
  record(entry);
}

}  // namespace plimsoll
