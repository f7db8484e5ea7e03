// An optimizer step: its micro-batches and its update are given to the device, and what they leave is read.
#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/anatomy/operations.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

std::span<const int32_t> rows_of(const MicroBatch& batch) {
  return batch.storage.buffers().rows.first(static_cast<size_t>(batch.info.num_sequences));
}

std::string row_list(std::span<const int32_t> rows) {
  std::string text;
  for (size_t i = 0; i < rows.size() && i < 16; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", rows[i]);
  return text + (rows.size() > 16 ? ", ..." : "");
}

}  // namespace

TrainLoop::Pause::Pause(TrainLoop& loop) : loop_(loop) {
  loop.session_.executor().wait();
  start_ = Clock::now();
}

TrainLoop::Pause::~Pause() {
  loop_.last_finish_ += Clock::now() - start_;
}

// Throws: it is not finite.
void TrainLoop::refuse_loss(const Step& step, const GivenBatch& given, double loss) {
  const std::string where = session_.first_bad_value(*given.batch, step.denominator, given.number);
  // Before the first update the weights are those that were read.
  const bool came_so = state_.step == 0 && where.starts_with("the weight");
  throw_error(
      ErrorCode::kNotFinite,
      "step {}: the loss is {}; the weights were not changed. First not finite: {}. Samples (rows of the "
      "training data, from 0): {}. {}",
      step.info.step, std::isnan(loss) ? "nan" : "infinite", where.empty() ? "the loss itself" : where,
      row_list(rows_of(*given.batch)),
      came_so ? "It came so with the model: take another copy of it"
              : "Try a lower --learning_rate or --max_grad_norm, or look at these rows");
}

// The next batch, in memory that no micro-batch needs whose loss is still to be read.
MicroBatch& TrainLoop::take_batch() {
  MicroBatch& batch = batches_[next_batch_];
  next_batch_ = (next_batch_ + 1) % batches_.size();
  const auto waiting = Clock::now();
  PLIMSOLL_CHECK(session_.next_batch(batch), "the loader ended before the last step");
  // The device has something to do meanwhile.
  if (!session_.executor().is_fetching()) waited_ms_ += ms_between(waiting, Clock::now());
  return batch;
}

void TrainLoop::give(const Step& step, const GivenBatch& given) {
  session_.set_micro_batches_done(given.number);
  session_.start_forward_backward(*given.batch, step.denominator, step.num_given == 0);
}

void TrainLoop::count_given(Step& step, const MicroBatch& batch) {
  StepInfo& info = step.info;
  const std::span<const int32_t> rows = rows_of(batch);
  step.rows.insert(step.rows.end(), rows.begin(), rows.end());
  step.last = batch.info;
  step.micro_batches_done = session_.micro_batches_done();
  info.num_tokens += batch.info.num_tokens;
  info.num_sequences += batch.info.num_sequences;
  const Bucket& bucket = session_.executor().current_bucket(ProgramKind::kTrain);
  info.num_rows_computed += bucket.tokens;
  BucketFlops& flops = flops_by_bucket_[bucket.tokens];
  if (flops.all == 0) {
    step.meets_bucket = true;
    flops = {plan_flops(*session_.plan().train, bucket), model_flops(*session_.plan().train, bucket)};
  }
  step.flops += flops.all;
  info.model_flops += flops.model;
}

// Of the micro-batch whose loss was fetched last.
void TrainLoop::read_loss(Step& step) {
  const GivenBatch given = *std::exchange(step.unread, std::nullopt);
  const double loss = session_.executor().fetched("loss").load(0);
  step.info.loss += loss;
  if (!std::isfinite(loss)) refuse_loss(step, given, loss);
}

// Gives the device a step's micro-batches and its update. Where a plan runs ahead, what a micro-batch or a
// step leaves is read when the forward and backward pass of the next one are given, but before the update
// that they lead to: so nothing is updated behind a step that is not finite, and whatever is done after a
// step finds weights and states as it left them.
void TrainLoop::take_step() {
  const bool runs_ahead = session_.plan().runs_ahead();
  const int64_t per_step = arguments_.gradient_accumulation_steps * arguments_.per_device_train_batch_size;
  Step step;
  step.info.step = state_.step + (step_before_ ? 2 : 1);
  step.info.max_steps = state_.max_steps;
  bool is_last = false;
  for (; !is_last; ++step.num_given) {
    const MicroBatch& batch = take_batch();
    if (step.num_given == 0) {
      step.denominator = static_cast<double>(
          std::min(per_step, session_.setup().rows_per_epoch - batch.info.position.index));
    }
    const GivenBatch given{&batch, session_.micro_batches_done()};
    give(step, given);
    if (step_before_) {
      finish_step_before();
      if (end_) return;
      // An evaluation takes the memory of what was given.
      if (!session_.executor().is_train_undisturbed()) give(step, given);
    } else if (step.unread) {
      read_loss(step);
    }
    step.unread = given;
    count_given(step, batch);
    is_last = step.num_given + 1 == arguments_.gradient_accumulation_steps || batch.info.last_in_epoch;
    if (!runs_ahead || !is_last) session_.executor().fetch();
    if (!runs_ahead) read_loss(step);
  }
  step.info.learning_rate = learning_rate();
  session_.start_update(step.info.learning_rate, step.info.step, skipped_steps_);
  session_.executor().fetch();
  step_before_ = std::move(step);
  if (!runs_ahead || is_followed_by_other_work(*step_before_)) finish_step_before();
}

// Whether the loop knows before it has read what a step left that the next one does not follow at once.
bool TrainLoop::is_followed_by_other_work(const Step& step) const {
  return step.info.step >= state_.max_steps || stop_is_requested() ||
         (arguments_.eval_strategy != "no" &&
          is_due(arguments_.eval_strategy, arguments_.eval_steps.value_or(0), step.info, step.last.next));
}

void TrainLoop::finish_step_before() {
  Step step = *std::exchange(step_before_, std::nullopt);
  StepInfo& info = step.info;
  if (step.unread) read_loss(step);
  const StepOutputs outputs = session_.executor().fetched_step();
  try {
    info.skipped = session_.outcome_of(outputs, info.step) == UpdateOutcome::kSkipped;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFinite) throw;
    throw Error(error.code(), std::string(error.what()) +
                                  ". Samples (rows of the training data, from 0): " + row_list(step.rows));
  }
  info.grad_norm = outputs.grad_norm;
  info.loss_scale = outputs.loss_scale;
  skipped_steps_ = outputs.skipped_steps;
  if (info.skipped) tell_skipped(info);
  info.data_wait_ms = std::exchange(waited_ms_, 0.0);
  const auto now = Clock::now();
  info.step_ms = ms_between(std::exchange(last_finish_, now), now);
  info.peak_flops_per_s = 1e9 * peak_product_gflops(session_.plan().request);
  count_step(step);
  StepTimes& times = step.meets_bucket ? first_steps_ : later_steps_;
  times.ms += info.step_ms;
  ++times.count;
  state_.seconds = seconds_before_ + ms_between(begin_, now) / 1000.0;
  after_step(info);
}

void TrainLoop::count_step(Step& step) {
  StepInfo& info = step.info;
  const int64_t micro_in_epoch = step.last.position.index / arguments_.per_device_train_batch_size + 1;
  info.epoch = static_cast<double>(step.last.position.epoch) +
               static_cast<double>(micro_in_epoch) / static_cast<double>(session_.setup().batches_per_epoch);
  state_.step = info.step;
  state_.micro_batches = step.micro_batches_done;
  state_.position = step.last.next;
  state_.epoch = info.epoch;
  state_.tokens_seen += info.num_tokens;
  state_.total_flos += step.flops;
  state_.loss_sum += info.loss;
  state_.loss_sum_since_log += info.loss;
  ++state_.steps_since_log;
  rows_since_log_ += info.num_rows_computed;
  tokens_since_log_ += info.num_tokens;
  waiting_.add(info.data_wait_ms, info.step_ms);
  wait_since_log_ms_ += info.data_wait_ms;
  time_since_log_ms_ += info.step_ms;
  model_flops_since_log_ += info.model_flops;
}

}  // namespace plimsoll
