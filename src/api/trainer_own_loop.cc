// Implements the functions of Trainer for custom training loops: batches, forward and backward passes, updates.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "api/trainer_state.h"
#include "base/check.h"
#include "io/ckpt/checkpoint.h"
#include "train/checkpoint_policy.h"
#include "train/named_weights.h"
#include "train/resume.h"

namespace plimsoll {

Batch::Batch() = default;
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
int64_t Batch::num_sequences() const {
  return impl_ ? impl_->batch.size().sequences : 0;
}
int64_t Batch::num_tokens() const {
  return impl_ ? impl_->batch.size().tokens : 0;
}
bool Batch::last_in_epoch() const {
  return impl_ && impl_->batch.info.last_in_epoch;
}
bool Batch::has_labels() const {
  return impl_ && impl_->has_labels;
}
int64_t Batch::num_cut_tokens() const {
  return impl_ ? impl_->rows.tokens.truncation().tokens : 0;
}
double Batch::epoch() const {
  if (!impl_ || impl_->rows.num_rows() > 0) return 0;
  const DataPosition& position = impl_->batch.info.position;
  const int64_t batches_done = position.index / impl_->batch_size + 1;
  return static_cast<double>(position.epoch) +
         static_cast<double>(batches_done) / static_cast<double>(impl_->batches_per_epoch);
}

namespace {

// Multiplies the accumulated gradients by a factor. A step needs this once, and only if the custom loop has used another number
// of labels than the one by which forward_backward() divided the losses.
void scale_gradients(Executor& executor, double factor) {
  std::vector<std::byte> piece(size_t{1} << 20);
  int64_t num_scaled = 0;
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage != Storage::kGradient) continue;
    // Only the elements are scaled, not the unused bytes after them that align the buffer. With --debug_allocations these bytes
    // do not exist: the memory ends directly after the last element.
    const int64_t width = dtype_bytes(buffer.type.dtype);
    const int64_t bytes = executor.elements(buffer.name) * width;
    for (int64_t begin = 0; begin < bytes; begin += std::ssize(piece)) {
      const std::span part =
          std::span(piece).first(static_cast<size_t>(std::min<int64_t>(std::ssize(piece), bytes - begin)));
      executor.read(buffer.name, begin, part);
      const View gradient{part.data(), buffer.type.dtype};
      const int64_t count = std::ssize(part) / width;
      for (int64_t i = 0; i < count; ++i) gradient.store(i, factor * gradient.load(i));
      executor.write(buffer.name, begin, part);
    }
    ++num_scaled;
  }
  PLIMSOLL_CHECK(num_scaled > 0,
                 "the gradients cannot be scaled after forward_backward(), because this run stores none: it "
                 "updates weights "
                 "as soon as their gradients are computed");
}

}  // namespace

void Trainer::Impl::require_training(const char* function) const {
  if (session.setup().purpose == RunPurpose::kTrain) return;
  throw_error(ErrorCode::kUsage,
              "{} needs training data, and this Trainer was made to {} only: make it with Task::kTrain",
              function, session.setup().purpose == RunPurpose::kEvaluate ? "evaluate" : "predict");
}

void Trainer::Impl::require_training_data(const char* function) const {
  require_training(function);
  if (session.setup().data.train) return;
  throw_error(ErrorCode::kUsage,
              "{} needs training rows, and this Trainer has none: set MemoryData::train, or pass batches "
              "from make_batch() "
              "to forward_backward()",
              function);
}

const Batch::Impl& Trainer::Impl::require_batch(const Batch& batch, const char* action) const {
  if (!batch.impl_) {
    throw_error(ErrorCode::kUsage,
                "{} got an empty batch, which was moved from or never filled: use a batch from next_batch() "
                "or make_batch()",
                action);
  }
  if (batch.impl_->owner != this) {
    throw_error(ErrorCode::kUsage,
                "{} got a batch that another Trainer made: use a batch from this Trainer's next_batch() or "
                "make_batch()",
                action);
  }
  return *batch.impl_;
}

void Trainer::Impl::require_gradients(const char* function) const {
  require_training(function);
  if (own_step.micro_batches > 0) return;
  throw_error(ErrorCode::kUsage, "{} without gradients: call forward_backward(batch) before each {}",
              function, function);
}

void Trainer::Impl::require_no_gradients(const char* function) const {
  if (own_step.micro_batches == 0) return;
  throw_error(ErrorCode::kUsage,
              "{} cannot run between forward_backward() and update(), because it would overwrite the "
              "gradients; call update() first",
              function);
}

Batch Trainer::next_batch() {
  impl().require_training_data("next_batch()");
  impl().start();
  if (!impl().batches_started) {
    impl().session.start_batches(impl().own_run.start);
    impl().batches_started = true;
  }
  Batch batch;
  batch.impl_ = std::make_unique<Batch::Impl>(
      Batch::Impl{.batch = impl().session.make_batch(),
                  .rows = {},
                  .owner = &impl(),
                  .batches_per_epoch = impl().session.setup().steps.length.batches_per_epoch,
                  .batch_size = impl().arguments().per_device_train_batch_size});
  PLIMSOLL_CHECK(impl().session.next_batch(batch.impl_->batch),
                 "the number of epochs is not limited, but the loader had no further batch");
  return batch;
}

Batch Trainer::make_batch(const std::vector<DataRow>& rows) const {
  Dataset data = impl().session.read_rows(rows, LongIds::kRefuse);
  std::vector<int32_t> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  MicroBatch made = impl().session.batch_of(data, all);
  const bool has_labels = !data.labels.empty();
  Batch batch;
  batch.impl_ = std::make_unique<Batch::Impl>(Batch::Impl{
      .batch = std::move(made), .rows = std::move(data), .owner = &impl(), .has_labels = has_labels});
  return batch;
}

ForwardOutput Trainer::forward(const Batch& batch) {
  const Batch::Impl& made = impl().require_batch(batch, "forward()");
  impl().require_no_gradients("forward()");
  impl().session.require_room(kEvaluateProgram, made.batch, "forward()");
  impl().start();
  BatchOutputs outputs = impl().session.forward(made.batch);
  const int64_t num_labels = impl().session.setup().model.config.num_outputs();
  ForwardOutput result{.num_rows = std::ssize(outputs.logits) / num_labels,
                       .num_labels = num_labels,
                       .logits = std::move(outputs.logits)};
  if (made.has_labels) result.loss = outputs.loss;
  return result;
}

double Trainer::forward_backward(const Batch& batch) {
  impl().require_training("forward_backward()");
  const Batch::Impl& made = impl().require_batch(batch, "forward_backward()");
  if (!made.has_labels) {
    throw_error(ErrorCode::kUsage,
                "forward_backward() of a batch without labels: fill DataRow::classes or DataRow::values");
  }
  impl().session.require_room(kTrainProgram, made.batch, "forward_backward()");
  // A call of train() that failed to resume from a checkpoint may have freed the memory of the run.
  impl().start();
  const int64_t accumulation = impl().arguments().gradient_accumulation_steps;
  OwnStep& step = impl().own_step;
  if (step.micro_batches >= accumulation) {
    throw_error(ErrorCode::kUsage,
                "forward_backward() was called {} times since update(), and --gradient_accumulation_steps is "
                "{}: call update() first, or raise the argument",
                step.micro_batches + 1, accumulation);
  }
  const BatchInfo& info = made.batch.info;
  if (step.micro_batches == 0) {
    // The loss is divided by the number of labels that the step is expected to have. For a batch of next_batch(), this is the number in all
    // batches of which train() would make the step (fewer batches at the end of an epoch); for a batch of make_batch(), its own number. If
    // the step then has another number of labels, update() corrects the gradients.
    step.labels = 0;
    step.denominator = static_cast<double>(std::max<int64_t>(1, info.labels_in_step));
  }
  const double loss = impl().session.forward_backward(made.batch, step.denominator, step.micro_batches == 0);
  ++step.micro_batches;
  step.labels += info.num_labels;
  OwnRun& run = impl().own_run;
  run.tokens += made.batch.size().tokens;
  if (made.rows.num_rows() == 0) {
    run.position = info.next;
    run.epoch = batch.epoch();
  }
  return loss * step.denominator / static_cast<double>(std::max<int64_t>(1, info.num_labels));
}

void Trainer::Impl::finish_gradients() {
  const OwnStep step = std::exchange(own_step, {});
  const auto labels = static_cast<double>(std::max<int64_t>(1, step.labels));
  if (step.denominator != labels) scale_gradients(session.executor(), step.denominator / labels);
}

double Trainer::update(double learning_rate) {
  impl().require_gradients("update()");
  if (!std::isfinite(learning_rate) || learning_rate < 0) {
    throw_error(ErrorCode::kUsage, "update({}): the learning rate must be a finite number of at least 0",
                learning_rate);
  }
  impl().finish_gradients();
  impl().session.update(
      learning_rate_of_step(impl().session.plan().request.update.optimizer, learning_rate, impl().steps + 1),
      impl().steps + 1);
  ++impl().steps;
  return impl().session.executor().grad_norm();
}

void Trainer::Impl::require_own_update() const {
  const Plan& planned = session.plan();
  const char* reason = nullptr;
  if (planned.is_on_gpu()) {
    reason = "the weights are on a GPU, where a rule on the host cannot update them: give --use_cpu";
  } else if (planned.request.update.in_backward) {
    reason = "--optimizer_in_backward updates before all gradients are computed: leave it out";
  } else if (planned.request.ranks.updates_on_first) {
    reason = "--data_parallel_mode dp makes updates on the first process only: leave it out";
  } else if (planned.request.ranks.zero_stage != ZeroStage::kNone) {
    reason = "--zero_stage gives each process only its part of the gradients and states: leave it out";
  } else if (planned.is_pipelined()) {
    reason = "--pp_size gives each process only its layers: leave it out";
  } else if (planned.request.update.states_on_disk) {
    reason = "--offload_optimizer keeps the states on a disk, where a rule cannot update them: leave it out";
  } else if (planned.request.ranks.divides_context()) {
    reason = "--cp_size sums the gradients of the processes in the update: leave it out";
  } else if (planned.request.ranks.tensor_size > 1) {
    reason = "--tp_size gives each process only its part of the weights and gradients: leave it out";
  } else if (!planned.weight_copies.empty() || !planned.split_weights.empty() ||
             planned.request.precision.dtype != DType::kF32) {
    reason = "the weights are not stored as complete fp32 numbers: leave --dtype out";
  }
  for (const PersistentBuffer& buffer : planned.persistent) {
    const bool is_read = buffer.storage == Storage::kOptimizerState || buffer.storage == Storage::kGradient;
    if (reason == nullptr && is_read && buffer.type.dtype != DType::kF32)
      reason =
          "states or gradients are not stored in fp32: give --optim sgd, or another optimizer with fp32 "
          "states";
  }
  if (reason != nullptr) throw_error(ErrorCode::kUsage, "update_by(): {}", reason);
}

void Trainer::update_by(const UpdateRule& rule) {
  impl().require_gradients("update_by()");
  impl().require_own_update();
  impl().finish_gradients();
  Executor& executor = impl().session.executor();
  if (impl().own_parameters.empty()) impl().own_parameters = executor.updated_parameters();
  // No optimizer has more than four state tensors with the shape of a weight.
  std::array<std::span<float>, 4> states;
  for (const UpdatedParameter& parameter : impl().own_parameters) {
    const auto count = static_cast<size_t>(parameter.count);
    PLIMSOLL_CHECK(parameter.states.size() <= states.size(),
                   "a parameter may have at most 4 optimizer states with the shape of the weight, but has {}",
                   parameter.states.size());
    for (size_t i = 0; i < parameter.states.size(); ++i) states[i] = {parameter.states[i].as<float>(), count};
    rule({.name = parameter.name,
          .weights = {parameter.weight.as<float>(), count},
          .gradients = {parameter.gradient.as<float>(), count},
          .states = std::span(states).first(parameter.states.size())});
  }
  executor.note_own_update();
  ++impl().steps;
}

std::string Trainer::save_checkpoint() {
  impl().require_training("save_checkpoint()");
  impl().require_no_gradients("save_checkpoint()");
  impl().start();
  Session& session = impl().session;
  OwnRun& run = impl().own_run;
  const bool is_first = !run.state || run.state->run.id.empty();
  RunState state = run.state.value_or(planned_state(session.setup()));
  state.step = impl().steps;
  state.micro_batches = session.micro_batches_done();
  state.position = run.position;
  state.epoch = run.epoch;
  state.totals.tokens = run.tokens;
  const std::string& folder = impl().arguments().output_dir;
  make_folders(session.files(), folder);
  std::optional<FolderLock> lock;
  if (session.place().is_first()) lock.emplace(folder);
  if (is_first) {
    state.run = new_run_identity();
    std::vector<std::string> lines;
    check_foreign_checkpoints(session.files(), state, RunBegin::kNew, lines);
    remove_leftovers(session.files(), folder);
  }
  std::string saved = CheckpointSaver(session).save(order_checkpoint(session, state, OptimizerStates::kKept));
  run.state = std::move(state);
  for (const auto& callback : impl().callbacks) callback->on_save(saved);
  return saved;
}

std::vector<std::string> Trainer::load_checkpoint(const std::string& folder) {
  impl().require_training("load_checkpoint()");
  impl().require_no_gradients("load_checkpoint()");
  Session& session = impl().session;
  FileSystem& files = session.files();
  if (const auto damage = find_damage(files, folder, VerifyDepth::kHashes)) {
    const std::string foreign = describe_foreign_checkpoint(files, folder);
    throw_error(ErrorCode::kBadData, "load_checkpoint(): {}: {}", folder,
                foreign.empty() ? *damage : foreign);
  }
  const OpenCheckpoint checkpoint = open_checkpoint(files, folder);
  std::vector<std::string> lines;
  RunState state = resumed_state(files, checkpoint, planned_state(session.setup()), lines);
  impl().start();
  session.begin_anew();
  restore_tensors(session, checkpoint);
  session.set_micro_batches_done(state.micro_batches);
  impl().steps = state.step;
  impl().batches_started = false;
  impl().own_run = {.state = std::nullopt,
                    .position = state.position,
                    .start = state.position,
                    .epoch = state.epoch,
                    .tokens = state.totals.tokens};
  state.arguments = impl().arguments();
  impl().own_run.state = std::move(state);
  return lines;
}

std::vector<WeightInfo> Trainer::weights() const {
  std::vector<WeightInfo> infos;
  for (NamedWeight& weight : named_weights(impl().session.plan())) {
    infos.push_back({.name = std::move(weight.name),
                     .shape = std::move(weight.shape),
                     .stored_as = std::move(weight.stored_as),
                     .is_trained = impl().session.plan().trains() && weight.spec->trainable,
                     .rate_factor = weight.spec->rate_factor});
  }
  return infos;
}

std::vector<float> Trainer::read_weight(std::string_view name) {
  const NamedWeight weight = find_weight(impl().session.plan(), name);
  impl().start();
  return plimsoll::read_weight(impl().session.executor(), weight);
}

void Trainer::write_weight(std::string_view name, std::span<const float> values) {
  const NamedWeight weight = find_weight(impl().session.plan(), name);
  impl().start();
  plimsoll::write_weight(impl().session.executor(), weight, values);
}

int64_t Trainer::step() const {
  return impl().steps;
}

}  // namespace plimsoll
