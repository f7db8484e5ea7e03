#include "train/trainer.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "graph/ops/op.h"
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

std::vector<ScheduleOption> schedule_options(const KeyValues& arguments) {
  std::vector<ScheduleOption> options;
  for (const auto& [name, text] : arguments) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    options.push_back({name, is_number ? std::variant<double, std::string>(number)
                                       : std::variant<double, std::string>(text)});
  }
  return options;
}

std::string with_prefix(const std::string& metric) {
  return metric.starts_with("eval_") ? metric : "eval_" + metric;
}

void write_text(FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

void append_text(FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.open_append(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

std::string row_list(std::span<const int32_t> rows) {
  std::string text;
  for (size_t i = 0; i < rows.size() && i < 16; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", rows[i]);
  return text + (rows.size() > 16 ? ", ..." : "");
}

}  // namespace

double plan_flops(const ProgramPlan& program, const Bucket& bucket) {
  double flops = 0;
  for (const Op& op : program.graph.ops()) {
    if (op.segment != Segment::kOptimizer) flops += schema_of(op).flops({program.graph, op}, bucket);
  }
  return flops;
}

TrainLoop::TrainLoop(Session& session, std::vector<std::shared_ptr<Callback>> callbacks)
    : session_(session), arguments_(session.setup().arguments), callbacks_(std::move(callbacks)) {
  state_.arguments = arguments_;
  state_.max_steps = session.setup().max_steps;
  state_.num_epochs = static_cast<int64_t>(std::ceil(session.setup().num_epochs));
  state_.data_hash = session.setup().train_data_hash;
  state_.data_rows = session.setup().rows_per_epoch;
  const ScheduleKind kind = parse_schedule(arguments_.lr_scheduler_type);
  const std::vector<ScheduleOption> options = schedule_options(arguments_.lr_scheduler_kwargs);
  if (follows_metric(kind)) {
    metric_options_ = make_metric_schedule(kind, options);
    metric_state_ = start_metric_schedule(metric_options_, arguments_.learning_rate);
  } else {
    schedule_ = make_schedule(kind, arguments_.learning_rate, num_warmup_steps(arguments_, state_.max_steps),
                              state_.max_steps, options);
  }
  if (arguments_.early_stopping_patience) {
    callbacks_.push_back(std::make_shared<EarlyStopping>(
        with_prefix(arguments_.metric_for_best_model), arguments_.greater_is_better.value_or(false),
        *arguments_.early_stopping_patience, arguments_.early_stopping_threshold));
  }
  remember_callbacks();
}

double TrainLoop::learning_rate() const {
  return metric_state_ ? metric_state_->learning_rate
                       : arguments_.learning_rate * schedule_multiplier(*schedule_, state_.step);
}

std::vector<std::string> TrainLoop::resume() {
  FileSystem& files = session_.files();
  std::vector<std::string> lines;
  std::string path = arguments_.resume_from_checkpoint;
  if (path == "True" || path == "true" || path == "1") {
    const NewestCheckpoint newest = find_newest_verified(files, arguments_.output_dir);
    for (const SkippedCheckpoint& skipped : newest.skipped)
      lines.push_back("skipped " + skipped.path + ": " + skipped.reason);
    if (newest.path.empty() && !newest.skipped.empty()) {
      // Starting anew would write over what the user may still want to save.
      throw_error(ErrorCode::kBadData,
                  "{}: none of its {} checkpoints verifies; the newest, {}: {}. Restore one from a copy, or "
                  "leave --resume_from_checkpoint out to start from the beginning",
                  arguments_.output_dir, newest.skipped.size(), newest.skipped.front().path,
                  newest.skipped.front().reason);
    }
    if (newest.path.empty()) {
      lines.push_back("no checkpoint to resume from in " + arguments_.output_dir +
                      ": starting from the beginning");
      return lines;
    }
    path = newest.path;
  } else if (const auto damage = find_damage(files, path, VerifyDepth::kHashes)) {
    throw_error(ErrorCode::kBadData,
                "{}: {}. Resume from another checkpoint, or with --resume_from_checkpoint True from the "
                "newest that verifies",
                path, *damage);
  }
  const OpenCheckpoint checkpoint = open_checkpoint(files, path);
  RunState state = parse_run_state(checkpoint.run_state_json, path + "/" + std::string(kRunStateFile));
  const LoadReport report =
      load_weights(session_.executor(), checkpoint.model, OnShapeMismatch::kTreatAsMissing);
  if (!report.mismatched.empty()) {
    const ShapeMismatch& first = report.mismatched.front();
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' has the shape {}, this run's model needs {}; resume with the model and the "
        "labels of that run",
        path, first.name, shape_text(first.found), shape_text(first.wanted));
  }
  if (!report.missing.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' is missing; this checkpoint is of another model, resume with the model "
                "of that run",
                path, report.missing.front());
  }
  const std::vector<TensorSource> states = state_tensors(session_.executor());
  if (states.size() != checkpoint.optimizer.tensors().size()) {
    throw_error(ErrorCode::kBadData,
                "{}: the optimizer's state has {} tensors, this run's optimizer has {}; resume with the "
                "--optim of that run",
                path, checkpoint.optimizer.tensors().size(), states.size());
  }
  for (const TensorSource& tensor : states) {
    const StoredTensor* stored = checkpoint.optimizer.find(tensor.name);
    if (stored == nullptr || stored->shape != tensor.shape) {
      throw_error(ErrorCode::kBadData,
                  "{}: the optimizer's state '{}' is missing or has another shape; resume with the --optim "
                  "of that run",
                  path, tensor.name);
    }
    read_stored(session_.executor(), tensor.name, 0, checkpoint.optimizer, *stored);
  }
  for (const ArgumentDifference& difference : diff_arguments(state.arguments, arguments_)) {
    if (difference.name == "resume_from_checkpoint" || difference.name == "output_dir") continue;
    lines.push_back(fmt::format("--{}: was {}, is now {}: the new value holds from here on", difference.name,
                                difference.before.empty() ? "(not set)" : difference.before,
                                difference.after.empty() ? "(not set)" : difference.after));
  }
  if (state.data_hash != 0 && state_.data_hash != 0 && state.data_hash != state_.data_hash) {
    lines.push_back(
        fmt::format("warning: the training data is not that of the checkpoint (it had {} rows, there are {} "
                    "now): the run goes on "
                    "at its place in the order of the new data",
                    state.data_rows, state_.data_rows));
  }
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
  session_.set_micro_batches_done(state_.micro_batches);
  saved_step_ = state_.step;
  last_checkpoint_ = path;
  lines.push_back(fmt::format("resuming from {}: step {} of {}, epoch {:.2f}", path, state_.step,
                              state_.max_steps, state_.epoch));
  if (state_.step >= state_.max_steps) {
    lines.push_back(
        fmt::format("warning: nothing is left to train: the checkpoint is at step {}, this run ends at "
                    "{}; raise --max_steps or --num_train_epochs to go on",
                    state_.step, state_.max_steps));
  }
  std::filesystem::create_directories(arguments_.output_dir);
  std::string log;
  for (const LogRecord& record : state_.log_history) {
    log += log_line(record);
  }
  write_text(files, arguments_.output_dir + "/log.jsonl", log);
  return lines;
}

StepInfo TrainLoop::train_step(MicroBatch& batch) {
  const auto start = Clock::now();
  const RunSetup& setup = session_.setup();
  StepInfo info{.step = state_.step + 1, .max_steps = state_.max_steps, .learning_rate = learning_rate()};
  const int64_t per_step = arguments_.gradient_accumulation_steps * arguments_.per_device_train_batch_size;
  double denominator = 0;
  std::vector<int32_t> rows;
  for (int64_t micro = 0; micro < arguments_.gradient_accumulation_steps; ++micro) {
    const auto waiting = Clock::now();
    PLIMSOLL_CHECK(session_.next_batch(batch), "the loader ended before the last step");
    info.data_wait_ms += ms_since(waiting);
    if (micro == 0)
      denominator = static_cast<double>(std::min(per_step, setup.rows_per_epoch - batch.info.position.index));
    const auto batch_rows = batch.storage.buffers().rows.first(static_cast<size_t>(batch.info.num_sequences));
    rows.insert(rows.end(), batch_rows.begin(), batch_rows.end());
    const double loss = session_.forward_backward(batch, denominator, micro == 0);
    info.loss += loss;
    if (!std::isfinite(loss)) {
      const std::string where = session_.executor().first_bad_value();
      // Before the first update the weights are those that were read.
      const bool came_so = state_.step == 0 && where.starts_with("the weight");
      throw_error(
          ErrorCode::kNotFinite,
          "step {}: the loss is {}; the weights were not changed. First not finite: {}. Samples (rows of the "
          "training data, from 0): {}. {}",
          info.step, std::isnan(loss) ? "nan" : "infinite", where.empty() ? "the loss itself" : where,
          row_list(batch_rows),
          came_so ? "It came so with the model: take another copy of it"
                  : "Try a lower --learning_rate or --max_grad_norm, or look at these rows");
    }
    info.num_tokens += batch.info.num_tokens;
    info.num_sequences += batch.info.num_sequences;
    const Bucket& bucket = session_.executor().current_bucket(ProgramKind::kTrain);
    info.num_rows_computed += bucket.tokens;
    double& flops = flops_by_bucket_[bucket.tokens];
    if (flops == 0) flops = plan_flops(*session_.plan().train, bucket);
    state_.total_flos += flops;
    if (batch.info.last_in_epoch) break;
  }
  try {
    session_.update(info.learning_rate, info.step);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFinite) throw;
    throw Error(error.code(), std::string(error.what()) +
                                  ". Samples (rows of the training data, from 0): " + row_list(rows));
  }
  info.grad_norm = session_.executor().grad_norm();
  const int64_t micro_in_epoch = batch.info.position.index / arguments_.per_device_train_batch_size + 1;
  info.epoch = static_cast<double>(batch.info.position.epoch) +
               static_cast<double>(micro_in_epoch) / static_cast<double>(setup.batches_per_epoch);
  info.step_ms = ms_since(start);
  state_.step = info.step;
  state_.micro_batches = session_.micro_batches_done();
  state_.position = batch.info.next;
  state_.epoch = info.epoch;
  state_.tokens_seen += info.num_tokens;
  state_.loss_sum += info.loss;
  state_.loss_sum_since_log += info.loss;
  ++state_.steps_since_log;
  rows_since_log_ += info.num_rows_computed;
  tokens_since_log_ += info.num_tokens;
  wait_since_log_ms_ += info.data_wait_ms;
  time_since_log_ms_ += info.step_ms;
  step_time_ms_ += info.step_ms;
  ++steps_run_;
  return info;
}

bool TrainLoop::is_epoch_end(const StepInfo&) const {
  return state_.position.index == 0;
}

// The end of the run ends its epoch too, as in Trainer.
bool TrainLoop::is_due(const std::string& strategy, double setting, const StepInfo& info) const {
  if (strategy == "epoch") return is_epoch_end(info) || info.step >= state_.max_steps;
  if (strategy != "steps") return false;
  const int64_t interval = interval_steps(setting, state_.max_steps);
  return interval > 0 && info.step % interval == 0;
}

void TrainLoop::record(LogRecord entry) {
  if (arguments_.include_num_input_tokens_seen != "no") {
    entry.values["num_input_tokens_seen"] = static_cast<double>(state_.tokens_seen);
  }
  state_.log_history.push_back(entry);
  append_text(session_.files(), arguments_.output_dir + "/log.jsonl", log_line(entry));
  for (const auto& callback : callbacks_) callback->on_log(entry);
}

void TrainLoop::log_step(const StepInfo& info) {
  LogRecord entry{.step = info.step, .epoch = info.epoch, .values = {}};
  entry.values["loss"] =
      state_.loss_sum_since_log / static_cast<double>(std::max<int64_t>(state_.steps_since_log, 1));
  entry.values["grad_norm"] = info.grad_norm;
  entry.values["learning_rate"] = info.learning_rate;
  if (arguments_.include_num_input_tokens_seen != "no") {
    const double seconds = std::max(state_.seconds, 1e-9);
    entry.values["train_runtime"] = std::round(10000.0 * seconds) / 10000.0;
    entry.values["train_tokens_per_second"] =
        std::round(1000.0 * static_cast<double>(state_.tokens_seen) / seconds) / 1000.0;
  }
  if (time_since_log_ms_ > 0) {
    entry.values["tokens_per_second"] = 1000.0 * static_cast<double>(tokens_since_log_) / time_since_log_ms_;
    entry.values["data_wait_fraction"] = wait_since_log_ms_ / time_since_log_ms_;
    entry.values["unused_row_fraction"] =
        1.0 - static_cast<double>(tokens_since_log_) / static_cast<double>(rows_since_log_);
  }
  state_.loss_sum_since_log = 0;
  state_.steps_since_log = 0;
  tokens_since_log_ = 0;
  rows_since_log_ = 0;
  wait_since_log_ms_ = 0;
  time_since_log_ms_ = 0;
  record(entry);
}

void TrainLoop::evaluate(const StepInfo& info) {
  const auto start = Clock::now();
  const RunSetup& setup = session_.setup();
  const auto progress = [&](int64_t done, int64_t all) {
    for (const auto& callback : callbacks_) callback->on_evaluate_progress(done, all);
  };
  MetricMap metrics;
  for (const auto& [key, value] : session_.evaluate(*setup.evaluate, setup.metric_names, nullptr, progress))
    metrics["eval_" + key] = value;
  if (setup.evaluate_mismatched) {
    for (const auto& [key, value] :
         session_.evaluate(*setup.evaluate_mismatched, setup.metric_names, nullptr, progress)) {
      metrics["eval_" + key + "_mm"] = value;
    }
  }
  const int64_t rows = setup.evaluate->num_rows();
  const int64_t batch = arguments_.per_device_eval_batch_size;
  metrics.merge(speed_metrics(
      "eval", {.seconds = ms_since(start) / 1000.0, .samples = rows, .steps = (rows + batch - 1) / batch}));
  record({.step = info.step, .epoch = info.epoch, .values = metrics});
  // An evaluation before the first step moves neither the learning rate nor the best model, as in Trainer.
  if (info.step > 0) update_best(info, metrics);
  for (const auto& callback : callbacks_) callback->on_evaluate(info, metrics, control_);
}

void TrainLoop::update_best(const StepInfo& info, const MetricMap& metrics) {
  // As in Trainer, nothing is called the best until a metric is named or implied (resolve_arguments fills
  // it).
  if (arguments_.metric_for_best_model.empty()) return;
  const auto it = metrics.find(with_prefix(arguments_.metric_for_best_model));
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
  contents.model.config_text = model_config_json(session_.setup().model);
  contents.model.tensors = weight_tensors(session_.executor());
  contents.model.carried = session_.tokenizer_files();
  contents.trainer_state_json = trainer_state_json(state_);
  if (!arguments_.save_only_model) {
    contents.optimizer_tensors = state_tensors(session_.executor());
    contents.run_state_json = run_state_json(state_);
  }
  return contents;
}

void TrainLoop::save(const StepInfo& info) {
  if (saved_step_ == info.step) return;
  FileSystem& files = session_.files();
  const std::string folder = "checkpoint-" + std::to_string(info.step);
  const bool is_best = state_.best_metric && state_.best_step == info.step;
  if (is_best) state_.best_checkpoint = folder;
  last_checkpoint_ = save_checkpoint(files, arguments_.output_dir, info.step, checkpoint_contents());
  saved_step_ = info.step;
  point_link(files, arguments_.output_dir, "last", last_checkpoint_);
  if (is_best) point_link(files, arguments_.output_dir, "best", last_checkpoint_);
  if (arguments_.save_total_limit && *arguments_.save_total_limit > 0) {
    const std::string best =
        state_.best_checkpoint.empty() ? "" : arguments_.output_dir + "/" + state_.best_checkpoint;
    rotate_checkpoints(files, arguments_.output_dir, *arguments_.save_total_limit, last_checkpoint_, best);
  }
  for (const auto& callback : callbacks_) callback->on_save(last_checkpoint_);
}

void TrainLoop::end_of_step_control(const StepInfo& info) {
  const bool last = info.step >= state_.max_steps;
  if (is_due(arguments_.logging_strategy, arguments_.logging_steps, info) ||
      (info.step == 1 && arguments_.logging_first_step)) {
    control_.log = true;
  }
  const bool delayed = arguments_.eval_strategy == "epoch"
                           ? info.epoch < arguments_.eval_delay
                           : static_cast<double>(info.step) < arguments_.eval_delay;
  const bool evaluates = arguments_.eval_strategy != "no" && session_.setup().evaluate;
  if (evaluates && !delayed &&
      (last || is_due(arguments_.eval_strategy, arguments_.eval_steps.value_or(0), info))) {
    control_.evaluate = true;
  }
  if (is_due(arguments_.save_strategy, arguments_.save_steps, info)) control_.save = true;
  if (last && arguments_.save_strategy != "no" && arguments_.save_strategy != "best") control_.save = true;
}

void TrainLoop::after_step(const StepInfo& info) {
  control_ = {};
  for (const auto& callback : callbacks_) callback->on_step_end(info, control_);
  end_of_step_control(info);
  if (control_.log) log_step(info);
  if (control_.evaluate && session_.setup().evaluate) evaluate(info);
  const bool stop = stop_requested_.load(std::memory_order_relaxed);
  if (control_.save || stop || (control_.stop && arguments_.save_strategy != "no")) save(info);
  end_ = control_.stop || stop || info.step >= state_.max_steps;
}

TrainOutput TrainLoop::run() {
  FileSystem& files = session_.files();
  std::filesystem::create_directories(arguments_.output_dir);
  for (const std::string& leftover : remove_leftovers(files, arguments_.output_dir))
    static_cast<void>(leftover);
  if (state_.step == 0) files.create(arguments_.output_dir + "/log.jsonl")->close();
  for (const auto& callback : callbacks_) callback->on_train_begin(state_.max_steps);
  const MemoryPhase memory;
  const auto start = Clock::now();
  const double seconds_before = state_.seconds;
  const int64_t rows_before = rows_trained();
  const int64_t steps_before = state_.step;
  TrainOutput output;
  if (state_.step < state_.max_steps) {
    session_.start_batches(state_.position, last_epoch() + 1);
    MicroBatch batch = session_.make_batch();
    if (arguments_.eval_on_start && state_.step == 0 && session_.setup().evaluate)
      evaluate({.max_steps = state_.max_steps});
    end_ = false;
    while (!end_) {
      const StepInfo info = train_step(batch);
      state_.seconds = seconds_before + ms_since(start) / 1000.0;
      after_step(info);
    }
  }
  output.interrupted = stop_requested_.load(std::memory_order_relaxed) && state_.step < state_.max_steps;
  output.step = state_.step;
  output.last_checkpoint = last_checkpoint_;
  output.metrics = final_metrics({.seconds = ms_since(start) / 1000.0,
                                  .samples = rows_trained() - rows_before,
                                  .steps = state_.step - steps_before});
  if (!arguments_.skip_memory_metrics) output.metrics.merge(memory.end("train"));
  if (!output.interrupted) {
    record({.step = state_.step, .epoch = state_.epoch, .values = output.metrics});
    write_text(files, arguments_.output_dir + "/" + std::string(kTrainerStateFile),
               trainer_state_json(state_));
    if (arguments_.load_best_model_at_end) load_best();
  }
  if (!state_.best_checkpoint.empty())
    output.best_checkpoint = arguments_.output_dir + "/" + state_.best_checkpoint;
  output.metrics["epoch"] = state_.epoch;
  output.metrics["train_samples"] = static_cast<double>(session_.setup().train->num_rows());
  output.log_history = state_.log_history;
  for (const auto& callback : callbacks_) callback->on_train_end();
  return output;
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

void TrainLoop::load_best() {
  if (state_.best_checkpoint.empty() || state_.best_checkpoint == "checkpoint-" + std::to_string(state_.step))
    return;
  const ModelFolder folder =
      ModelFolder::open(session_.files(), arguments_.output_dir + "/" + state_.best_checkpoint);
  load_weights(session_.executor(), folder, OnShapeMismatch::kFail);
}

}  // namespace plimsoll
