#include "train/step_engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "graph/ops/op.h"
#include "plan/anatomy/operations.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

double ms_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

std::string row_list(std::span<const int32_t> rows) {
  std::string text;
  for (size_t i = 0; i < rows.size() && i < 16; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", rows[i]);
  return text + (rows.size() > 16 ? ", ..." : "");
}

}  // namespace

double plan_flops(const ProgramPlan& program, const Bucket& bucket) {
  double flops = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.graph.ops()[i];
    // The forward segment may contain weight updates that belong to the previous step. They run once per step and not once per
    // micro-batch, so they are not counted as work of a micro-batch.
    if (op.segment == Segment::kOptimizer || program.ops[i].is_deferred) continue;
    // Ops that exchange data between ranks are not counted, so that the number of operations does not depend on the number of ranks.
    if (schema_of(op).is_communication()) continue;
    flops += schema_of(op).flops({program.graph, op}, bucket);
  }
  return flops;
}

StepEngine::Pause::Pause(StepEngine& engine, RankPhase phase) : engine_(engine) {
  engine.session_.executor().wait();
  engine.session_.begin_phase(phase, engine.num_steps_);
  start_ = Clock::now();
}

StepEngine::Pause::~Pause() {
  engine_.last_finish_ += Clock::now() - start_;
  engine_.begin_phase_of_step(engine_.num_steps_ + 1);
}

StepEngine::StepEngine(Session& session, Client& client) : session_(session), client_(client) {}

void StepEngine::start(int64_t num_steps, int64_t states_begin) {
  start_ = Clock::now();
  num_steps_ = num_steps;
  states_begin_ = states_begin;
  skipped_steps_ = session_.executor().skipped_steps();
  has_ended_ = false;
}

void StepEngine::start_batches(const DataPosition& position, int64_t num_epochs) {
  session_.start_batches(position, num_epochs);
  // A step of a pipeline loads all its micro-batches before it begins, so each of them needs its own MicroBatch.
  const int64_t count = session_.plan().is_pipelined()
                            ? session_.setup().arguments.gradient_accumulation_steps
                            : (session_.executor().runs_ahead() ? 2 : 1);
  for (int64_t i = 0; i < count; ++i) batches_.push_back(session_.make_batch());
}

void StepEngine::begin_phase_of_step(int64_t step) {
  session_.begin_phase(
      RankPhase::kStep, step,
      has_own_ddp_timeout(session_.setup().arguments) ? std::nullopt : longest_wait(recent_steps_));
}

void StepEngine::throw_bad_loss(const Step& step, const EnqueuedBatch& enqueued, double loss) {
  const std::string where = session_.first_bad_value(*enqueued.batch, step.denominator, enqueued.number);
  // In the first step of a run the weights have not been updated yet. If a weight contains a number that is not finite, this number comes
  // from the model's files.
  const bool is_bad_model = num_steps_ == 0 && where.starts_with("the weight");
  throw_error(ErrorCode::kNotFinite,
              "step {}: the loss is {}; the weights were not changed. The first value that is not finite: "
              "{}. Samples (rows of the training data, from 0): {}. {}",
              step.info.step, std::isnan(loss) ? "nan" : "infinite",
              where.empty() ? "the loss itself" : where, row_list(enqueued.batch->rows),
              is_bad_model ? "The files of the model contain this value: use another copy of the model"
                           : "Try a lower --learning_rate or --max_grad_norm, or look at these rows");
}

// Loads the next batch into the elements of batches_ in turn, so that the input tensors of a micro-batch stay unchanged until its loss has
// been read.
MicroBatch& StepEngine::load_batch() {
  MicroBatch& batch = batches_[next_batch_];
  next_batch_ = (next_batch_ + 1) % batches_.size();
  const auto waiting = Clock::now();
  PLIMSOLL_CHECK(session_.next_batch(batch),
                 "the loader must have a batch for every step, but it ended before the last step");
  // Loading a batch while the device is busy does not slow the run down, so only the rest of the loading time counts as waiting.
  if (!session_.executor().is_fetching()) waited_ms_ += ms_between(waiting, Clock::now());
  return batch;
}

void StepEngine::enqueue(const Step& step, const EnqueuedBatch& enqueued) {
  session_.set_micro_batches_done(enqueued.number);
  session_.start_forward_backward(*enqueued.batch, step.denominator, step.num_enqueued == 0);
}

void StepEngine::count_batch(Step& step, const MicroBatch& batch) {
  StepInfo& info = step.info;
  if (batch.info.contributes) step.rows.insert(step.rows.end(), batch.rows.begin(), batch.rows.end());
  step.last = batch.info;
  step.micro_batches_done = session_.micro_batches_done();
  const Bucket& bucket = session_.executor().current_bucket(kTrainProgram);
  BucketFlops& flops = flops_by_bucket_[{bucket.tokens, bucket.label_rows()}];
  if (flops.all == 0) {
    step.meets_bucket = true;
    flops = {plan_flops(session_.plan().programs.at(kTrainProgram), bucket),
             model_flops(session_.plan().programs.at(kTrainProgram), bucket)};
  }
  // A batch that only repeats the batch of another rank does not count as work of the run.
  if (!batch.info.contributes) return;
  info.num_tokens += batch.size().tokens;
  info.num_sequences += batch.size().sequences;
  info.num_rows_computed += bucket.tokens;
  step.flops += flops.all;
  info.model_flops += flops.model;
}

// Reads the loss of the micro-batch whose outputs were copied to the host last.
void StepEngine::read_loss(Step& step) {
  const EnqueuedBatch enqueued = *std::exchange(step.unread, std::nullopt);
  const double loss = session_.executor().fetched("loss").load(0);
  step.info.loss += loss;
  if (session_.plan().request.model.z_coefficient > 0.0)
    step.info.z_loss += session_.executor().fetched(std::string(kZLossOutput)).load(0);
  if (!std::isfinite(loss)) throw_bad_loss(step, enqueued, loss);
}

// Runs a step of a stage of a pipeline. All its micro-batches are loaded first, because the schedule depends on their number. The results
// of the previous step are read after the first forward pass of this step has been enqueued, as in run_step().
void StepEngine::run_pipeline_step() {
  const RunSetup& setup = session_.setup();
  const bool runs_ahead = session_.executor().runs_ahead();
  Step step;
  step.info.step = num_steps_ + (pending_ ? 2 : 1);
  step.info.max_steps = setup.steps.length.max_steps;
  begin_phase_of_step(step.info.step);
  std::vector<EnqueuedBatch> loaded;
  for (bool is_last = false; !is_last;) {
    const MicroBatch& batch = load_batch();
    if (loaded.empty())
      step.denominator = static_cast<double>(std::max<int64_t>(1, batch.info.labels_in_step));
    loaded.push_back({&batch, session_.micro_batches_done()});
    session_.set_micro_batches_done(session_.micro_batches_done() + batch.info.batches_of_ranks);
    is_last = std::ssize(loaded) == setup.arguments.gradient_accumulation_steps || batch.info.last_in_epoch;
  }
  const int64_t last_chunk = session_.plan().request.ranks.chunks - 1;
  // With several chunks of layers per stage, the results of the previous step are read before this step begins. Otherwise an evaluation
  // between the two steps could overwrite the activations of this step's first forward pass. The stages would have to repeat this pass, but
  // not every stage would wait for the messages that are then sent a second time.
  if (pending_ && last_chunk > 0) {
    finish_pending_step();
    if (has_ended_) return;
  }
  for (const ScheduledRun& run : all_runs(session_.plan().step_schedule, std::ssize(loaded))) {
    if (run.micro_batch < 0) continue;
    const EnqueuedBatch& enqueued = loaded[static_cast<size_t>(run.micro_batch)];
    session_.run_micro_batch(run, *enqueued.batch, step.denominator, enqueued.number);
    if (pending_) {
      finish_pending_step();
      if (has_ended_) return;
      // The forward pass of this step was already enqueued, but an evaluation has overwritten its activations. All stages repeat the
      // pass, so that each message that is sent is also received.
      if (!session_.executor().is_train_undisturbed())
        session_.run_micro_batch(run, *enqueued.batch, step.denominator, enqueued.number);
    }
    // The host reads the loss while the GPU computes the ops that were enqueued after it.
    if (step.unread) read_loss(step);
    if (run.segment != Segment::kForward || run.chunk != last_chunk) continue;
    count_batch(step, *enqueued.batch);
    if (!session_.has_loss()) continue;
    session_.executor().fetch();
    step.unread = enqueued;
    if (!runs_ahead) read_loss(step);
  }
  step.info.learning_rate = client_.learning_rate(num_steps_ - skipped_steps_);
  session_.start_update(step.info.learning_rate, step.info.step - states_begin_, skipped_steps_);
  session_.executor().fetch();
  pending_ = std::move(step);
  if (!runs_ahead || client_.is_followed_by_other_work(pending_->info, pending_->last.next))
    finish_pending_step();
}

void StepEngine::run_step() {
  if (session_.plan().is_pipelined()) return run_pipeline_step();
  const RunSetup& setup = session_.setup();
  const bool runs_ahead = session_.executor().runs_ahead();
  const int64_t accumulation = setup.arguments.gradient_accumulation_steps;
  Step step;
  step.info.step = num_steps_ + (pending_ ? 2 : 1);
  step.info.max_steps = setup.steps.length.max_steps;
  begin_phase_of_step(step.info.step);
  bool is_last = false;
  for (; !is_last; ++step.num_enqueued) {
    const MicroBatch& batch = load_batch();
    if (step.num_enqueued == 0)
      step.denominator = static_cast<double>(std::max<int64_t>(1, batch.info.labels_in_step));
    const EnqueuedBatch enqueued{&batch, session_.micro_batches_done()};
    enqueue(step, enqueued);
    if (pending_) {
      finish_pending_step();
      if (has_ended_) return;
      // The first micro-batch of this step was already enqueued, but an evaluation has overwritten its activations. It is enqueued again.
      if (!session_.executor().is_train_undisturbed()) enqueue(step, enqueued);
    } else if (step.unread) {
      read_loss(step);
    }
    step.unread = enqueued;
    count_batch(step, batch);
    is_last = step.num_enqueued + 1 == accumulation || batch.info.last_in_epoch;
    if (!runs_ahead || !is_last) session_.executor().fetch();
    if (!runs_ahead) read_loss(step);
  }
  step.info.learning_rate = client_.learning_rate(num_steps_ - skipped_steps_);
  session_.start_update(step.info.learning_rate, step.info.step - states_begin_, skipped_steps_);
  session_.executor().fetch();
  pending_ = std::move(step);
  if (!runs_ahead || client_.is_followed_by_other_work(pending_->info, pending_->last.next)) {
    finish_pending_step();
  }
}

// Adds the losses and the numbers of tokens, sequences, rows and operations of the other ranks to those of this rank. Losses are divided by
// the labels of the whole step, so that they can be added. Without a pipeline, the other ranks of this rank's tensor-parallel group have
// the same batches and the same number of operations: the sums are formed over the data-parallel ranks only, and the operations are
// multiplied by the size of the group. In a pipeline, only one rank of each tensor-parallel group of the last stage contributes losses and
// numbers of batches, while every rank contributes its own operations.
void StepEngine::add_other_ranks(Step& step) {
  StepInfo& info = step.info;
  const bool is_pipelined = session_.plan().is_pipelined();
  std::array<double, 6> sums{info.loss,
                             info.z_loss,
                             static_cast<double>(info.num_tokens),
                             static_cast<double>(info.num_sequences),
                             static_cast<double>(info.num_rows_computed),
                             step.flops};
  if (is_pipelined) {
    const bool is_first_of_group = session_.mesh().tensor_rank(session_.setup().place.rank) == 0;
    if (!session_.has_loss() || !is_first_of_group) std::fill(sums.begin(), sums.end() - 1, 0.0);
    session_.sum_over_ranks(sums);
  } else {
    session_.sum_over_data_ranks(sums);
  }
  info.loss = sums[0];
  info.z_loss = sums[1];
  info.num_tokens = static_cast<int64_t>(sums[2]);
  info.num_sequences = static_cast<int64_t>(sums[3]);
  info.num_rows_computed = static_cast<int64_t>(sums[4]);
  step.flops = is_pipelined ? sums[5] : sums[5] * session_.mesh().tensor_size;
}

// Returns true if the ranks may find different gradients that are not finite, because a rank checks only the gradients that it
// stores: those of its own pipeline stage or, if data-parallel ranks divide the states (ZeRO), those of its own parts of weights
// that a tensor-parallel group divides.
bool StepEngine::ranks_have_other_gradients() const {
  const RankOptions& ranks = session_.plan().request.ranks;
  return session_.plan().is_pipelined() ||
         (ranks.tensor_size > 1 && ranks.data_size() > 1 && ranks.zero_stage != ZeroStage::kNone);
}

void StepEngine::take_first_bad_of_ranks(StepOutputs& outputs) {
  const std::vector<std::string> names = session_.gather_texts(outputs.first_bad);
  const auto found = std::ranges::find_if(names, [](const std::string& name) { return !name.empty(); });
  if (found != names.end()) outputs.first_bad = *found;
}

void StepEngine::finish_pending_step() {
  Step step = *std::exchange(pending_, std::nullopt);
  StepInfo& info = step.info;
  if (step.unread) read_loss(step);
  StepOutputs outputs = session_.executor().fetched_step();
  if (!outputs.is_finite && ranks_have_other_gradients()) take_first_bad_of_ranks(outputs);
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
  add_other_ranks(step);
  info.data_wait_ms = std::exchange(waited_ms_, 0.0);
  const auto now = Clock::now();
  info.step_ms = ms_between(std::exchange(last_finish_, now), now);
  info.peak_flops_per_s = 1e9 * peak_product_gflops(session_.plan().request);
  const RunSetup& setup = session_.setup();
  const int64_t batches_in_epoch =
      step.last.position.index / setup.arguments.per_device_train_batch_size + step.last.batches_of_ranks;
  info.epoch =
      static_cast<double>(step.last.position.epoch) +
      static_cast<double>(batches_in_epoch) / static_cast<double>(setup.steps.length.batches_per_epoch);
  StepTimes& times = step.meets_bucket ? first_steps_ : later_steps_;
  times.ms += info.step_ms;
  ++times.count;
  recent_steps_.add(info.step_ms);
  num_steps_ = info.step;
  const AfterStep after = client_.on_step({.info = info,
                                           .next = step.last.next,
                                           .micro_batches = step.micro_batches_done,
                                           .flops = step.flops,
                                           .skipped_steps = skipped_steps_,
                                           .seconds = ms_between(start_, now) / 1000.0});
  has_ended_ = after == AfterStep::kEnd;
}

}  // namespace plimsoll
