#include "exec/executor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/split_f32.h"

namespace plimsoll {

Executor::Executor(const Plan& plan, uint8_t fill)
    : plan_(plan), backend_(plan.is_on_gpu() ? make_cuda_backend(plan, fill) : make_cpu_backend(plan, fill)) {
  for (auto [program, source] : {std::pair{&train_, &plan.train}, std::pair{&evaluate_, &plan.evaluate}}) {
    if (!*source) continue;
    program->plan = &**source;
    program->times.resize((*source)->graph.ops().size());
    program->first_times.resize(program->times.size());
  }
}

Executor::Program& Executor::program(ProgramKind kind) {
  Program& program = kind == ProgramKind::kTrain ? train_ : evaluate_;
  check_exists(program, kind);
  return program;
}

const Executor::Program& Executor::program(ProgramKind kind) const {
  const Program& program = kind == ProgramKind::kTrain ? train_ : evaluate_;
  check_exists(program, kind);
  return program;
}

void Executor::check_exists(const Program& program, ProgramKind kind) {
  PLIMSOLL_CHECK(program.plan != nullptr, "the plan has no {} program",
                 kind == ProgramKind::kTrain ? "train" : "evaluate");
}

View Executor::tensor(const std::string& name) {
  const PersistentBuffer& buffer = plan_.buffer(name);
  if (buffer.storage == Storage::kOutput) backend_->before_host_reads();
  PLIMSOLL_CHECK(
      !plan_.is_on_gpu() || buffer.storage == Storage::kOutput || buffer.storage == Storage::kInput,
      "'{}' is in GPU memory, which the host reads and writes by copies", name);
  if (is_persistent(buffer.storage)) {
    run_deferred_updates();
    backend_->wait();
  }
  // On a CPU both arenas are directly accessible.
  if (buffer.space == Space::kHost)
    return {backend_->arena(Space::kHost).at(buffer.offset), buffer.type.dtype};
  return {backend_->exchange(buffer.offset), buffer.type.dtype};
}

void Executor::read(const std::string& name, int64_t offset, std::span<std::byte> bytes) {
  if (const auto split = plan_.split_weights.find(name); split != plan_.split_weights.end())
    return read_split(split->second, offset, bytes);
  const PersistentBuffer& buffer = plan_.buffer(name);
  PLIMSOLL_CHECK(offset >= 0 && offset + std::ssize(bytes) <= buffer.bytes,
                 "{} bytes from {} on of '{}', {} long", bytes.size(), offset, name, buffer.bytes);
  run_deferred_updates();
  backend_->read(buffer.space, buffer.offset + offset, bytes);
}

void Executor::write(const std::string& name, int64_t offset, std::span<const std::byte> bytes) {
  if (const auto split = plan_.split_weights.find(name); split != plan_.split_weights.end())
    return write_split(split->second, offset, bytes);
  const PersistentBuffer& buffer = plan_.buffer(name);
  PLIMSOLL_CHECK(offset >= 0 && offset + std::ssize(bytes) <= buffer.bytes,
                 "{} bytes from {} on of '{}', {} long", bytes.size(), offset, name, buffer.bytes);
  run_deferred_updates();
  backend_->write(buffer.space, buffer.offset + offset, bytes);
  is_train_undisturbed_ = false;
  copies_are_stale_ = true;
  if (buffer.storage == Storage::kOptimizerState) updated_ = false;
}

int64_t Executor::elements(const std::string& name) const {
  const Shape shape = plan_.type_of(name).shape;
  PLIMSOLL_CHECK(!shape.depends_on_bucket(), "the size of '{}' depends on the bucket", name);
  return shape.elements({});
}

namespace {

// Checks the numbers of rows of tables, which kernels use without checking.
void check_rows(std::span<const int32_t> rows, int64_t num_rows, const char* what) {
  for (const int32_t row : rows) {
    PLIMSOLL_CHECK(row >= 0 && row < num_rows, "{} {} in a batch, of a table of {}", what, row, num_rows);
  }
}

// The halves of a part of a split weight while it is read or written.
struct Halves {
  std::vector<uint16_t> high, low;
  explicit Halves(size_t whole_bytes) : high(whole_bytes / 4), low(whole_bytes / 4) {
    PLIMSOLL_CHECK(whole_bytes % 4 == 0, "{} bytes are no whole number of fp32", whole_bytes);
  }
};

}  // namespace

void Executor::read_split(const SplitWeight& parts, int64_t offset, std::span<std::byte> whole) {
  Halves halves(whole.size());
  PLIMSOLL_CHECK(offset % 4 == 0, "a split weight is read from byte {} on", offset);
  read(parts.high, offset / 2, std::as_writable_bytes(std::span(halves.high)));
  read(parts.remainder, offset / 2, std::as_writable_bytes(std::span(halves.low)));
  for (size_t i = 0; i < halves.high.size(); ++i) {
    const float value = join_f32({halves.high[i], halves.low[i]});
    std::memcpy(whole.data() + 4 * i, &value, 4);
  }
}

void Executor::write_split(const SplitWeight& parts, int64_t offset, std::span<const std::byte> whole) {
  Halves halves(whole.size());
  PLIMSOLL_CHECK(offset % 4 == 0, "a split weight is written from byte {} on", offset);
  for (size_t i = 0; i < halves.high.size(); ++i) {
    float value = 0;
    std::memcpy(&value, whole.data() + 4 * i, 4);
    const SplitF32 split = split_f32(value);
    halves.high[i] = split.high;
    halves.low[i] = split.low;
  }
  write(parts.high, offset / 2, std::as_bytes(std::span(halves.high)));
  write(parts.remainder, offset / 2, std::as_bytes(std::span(halves.low)));
}

void Executor::fill_input(const std::string& name, std::span<const int32_t> values, int64_t count,
                          int32_t rest) {
  int32_t* destination = tensor(name).as<int32_t>();
  PLIMSOLL_CHECK(static_cast<int64_t>(values.size()) <= count, "{} values for '{}' of {}", values.size(),
                 name, count);
  std::copy(values.begin(), values.end(), destination);
  std::fill(destination + values.size(), destination + count, rest);
}

void Executor::stage(ProgramKind kind, const HostBatch& batch, double denominator) {
  Program& target = program(kind);
  const Bucket bucket = bucket_for(*target.plan, batch.num_tokens());
  PLIMSOLL_CHECK(batch.num_sequences() >= 1 && batch.num_sequences() <= bucket.sequences,
                 "a batch of {} sequences in a bucket of {}", batch.num_sequences(), bucket.sequences);
  for (int64_t i = 0; i < batch.num_sequences(); ++i) {
    const int64_t length =
        batch.cu_seqlens[static_cast<size_t>(i) + 1] - batch.cu_seqlens[static_cast<size_t>(i)];
    PLIMSOLL_CHECK(length >= 0 && length <= bucket.longest, "a sequence of {} tokens in a bucket of {}",
                   length, bucket.longest);
  }
  const ModelConfig& model = plan_.request.model.config;
  check_rows(batch.ids, model.vocab_size, "token");
  check_rows(batch.positions, model.max_position_embeddings, "position");
  const auto has = [&](const char* name) { return target.plan->graph.find(name) != kNoValue; };
  if (has("token_types")) check_rows(batch.token_types, model.type_vocab_size, "token type");
  target.bucket = bucket;
  target.staged = {
      .tokens = batch.num_tokens(), .sequences = batch.num_sequences(), .longest = bucket.longest};
  target.bound = &bound_for(target, bucket);
  backend_->before_host_writes(Inputs::kBatch);
  fill_input("ids", batch.ids, bucket.tokens, 0);
  fill_input("positions", batch.positions, bucket.tokens, 0);
  if (has("token_types")) fill_input("token_types", batch.token_types, bucket.tokens, 0);
  fill_input("cu_seqlens", batch.cu_seqlens, bucket.sequences + 1, static_cast<int32_t>(batch.num_tokens()));
  if (tensor("labels").dtype == DType::kI32) {
    fill_input("labels", batch.class_labels, bucket.sequences, -100);
  } else {
    const View labels = tensor("labels");
    const int64_t count = bucket.sequences * plan_.request.model.config.num_labels;
    PLIMSOLL_CHECK(static_cast<int64_t>(batch.real_labels.size()) <= count, "{} labels for {}",
                   batch.real_labels.size(), count);
    for (int64_t i = 0; i < count; ++i) {
      const bool real = i < static_cast<int64_t>(batch.real_labels.size());
      labels.store(i, real ? static_cast<double>(batch.real_labels[static_cast<size_t>(i)]) : 0.0);
    }
    tensor("num_sequences").store(0, static_cast<double>(batch.num_sequences()));
  }
  tensor("denominator").store(0, denominator);
}

void Executor::set_random(uint64_t seed, int64_t micro_batch) {
  if (!plan_.persistent_by_name.contains("rng")) return;
  backend_->before_host_writes(Inputs::kBatch);
  int64_t* rng = tensor("rng").as<int64_t>();
  rng[0] = static_cast<int64_t>(seed);
  rng[1] = micro_batch;
}

void Executor::set_accumulate(bool add) {
  if (!plan_.persistent_by_name.contains("accumulate")) return;
  backend_->before_host_writes(Inputs::kBatch);
  // The flag has the bits of 1.0f: kernels compare it with 0, and a product library on a GPU uses it as a factor.
  tensor("accumulate").as<int32_t>()[0] = add ? std::bit_cast<int32_t>(1.0f) : 0;
}

double Executor::used_loss_scale() {
  return plan_.scales_loss() ? tensor("used_loss_scale").load(0) : 1.0;
}

int64_t Executor::skipped_steps() {
  if (!plan_.scales_loss()) return 0;
  if (updated_) return read_integer(tensor("skipped_steps"));
  int32_t skipped = 0;
  read("loss_scale.skipped_steps", 0, std::as_writable_bytes(std::span(&skipped, 1)));
  return skipped;
}

void Executor::set_update(double learning_rate, int64_t step, int64_t skipped) {
  backend_->before_host_writes(Inputs::kUpdate);
  tensor("learning_rate").as<double>()[0] = learning_rate;
  tensor("step").as<int64_t>()[0] = step - skipped;
}

ConstView Executor::fetched(const std::string& name) {
  const PersistentBuffer& buffer = plan_.buffer(name);
  PLIMSOLL_CHECK(buffer.storage == Storage::kOutput, "'{}' is no output", name);
  return {backend_->fetched(buffer.offset), buffer.type.dtype};
}

StepOutputs Executor::fetched_step() {
  const bool scales = plan_.scales_loss();
  return {.loss = fetched("loss").load(0),
          .grad_norm = fetched("grad_norm").load(0),
          .is_finite = fetched("finite").load(0) != 0.0,
          .first_bad = bad_gradient(read_integer(fetched("first_bad"))),
          .loss_scale = scales ? fetched("used_loss_scale").load(0) : 1.0,
          .skipped_steps = scales ? read_integer(fetched("skipped_steps")) : 0};
}

BoundProgram& Executor::bound_for(Program& target, const Bucket& bucket) {
  BoundProgram& bound = target.by_tokens[bucket.tokens];
  if (!bound.ops.empty()) return bound;
  bound.plan = target.plan;
  bound.bucket = bucket;
  bound.ops.reserve(target.plan->graph.ops().size());
  for (uint32_t i = 0; i < target.plan->graph.ops().size(); ++i) {
    const ArenaMaps arenas{backend_->arena(Space::kDevice), backend_->arena(Space::kHost)};
    const BindContext context(plan_, *target.plan, bucket, arenas, i);
    bound.ops.push_back(
        {.run = backend_->bind(context), .segment = target.plan->graph.ops()[i].segment, .index = i});
  }
  return bound;
}

void Executor::refresh_copies() {
  if (!std::exchange(copies_are_stale_, false)) return;
  for (const WeightCopy& pair : plan_.weight_copies) {
    const PersistentBuffer& weight = plan_.buffer(pair.weight);
    const PersistentBuffer& copy = plan_.buffer(pair.copy);
    backend_->copy_weights(ConstView{backend_->arena(weight.space).at(weight.offset), weight.type.dtype},
                           View{backend_->arena(copy.space).at(copy.offset), copy.type.dtype},
                           elements(pair.weight));
  }
}

void Executor::run(ProgramKind kind, Segment segment) {
  Program& target = program(kind);
  PLIMSOLL_CHECK(target.bound != nullptr, "a segment runs before a batch is staged");
  DeferredWork deferred = DeferredWork::kNothing;
  if (kind == ProgramKind::kTrain && segment == Segment::kForward) {
    if (std::exchange(deferred_program_, nullptr) != nullptr) deferred = DeferredWork::kSomething;
  } else {
    run_deferred_updates();
  }
  refresh_copies();
  if (segment == Segment::kOptimizer) updated_ = true;
  is_train_undisturbed_ = kind == ProgramKind::kTrain;
  const bool is_first = !std::exchange(target.bound->has_run[index_of(segment)], true);
  if (is_first) note_scratch(*target.plan, segment);
  if (profiling_) {
    backend_->run_timed(*target.bound, segment, deferred, is_first ? target.first_times : target.times);
  } else {
    backend_->run(*target.bound, segment, deferred);
  }
  if (target.plan->deferred_after == segment) deferred_program_ = target.bound;
}

void Executor::run_deferred_updates() {
  if (BoundProgram* program = std::exchange(deferred_program_, nullptr))
    backend_->run_deferred_updates(*program);
}

void Executor::note_scratch(const ProgramPlan& program, Segment segment) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const OpPlan& op = program.ops[i];
    if (op.scratch_bytes == 0 || program.graph.ops()[i].segment != segment) continue;
    const int64_t bytes = bytes_in_arena(op.scratch_bytes, plan_.request.device.kind);
    used_scratch_end_ = std::max(used_scratch_end_, op.scratch_offset + bytes);
  }
}

int64_t Executor::written_bytes() {
  return bytes_in_arena(backend_->written_bytes(), plan_.request.device.kind);
}

const Bucket& Executor::current_bucket(ProgramKind kind) const {
  return program(kind).bucket;
}

void Executor::zero_states() {
  run_deferred_updates();
  is_train_undisturbed_ = false;
  for (const PersistentBuffer& buffer : plan_.persistent) {
    if (buffer.storage != Storage::kOptimizerState && buffer.storage != Storage::kGradient) continue;
    backend_->fill(buffer.space, buffer.offset, buffer.bytes, 0);
  }
  for (const InitialState& state : plan_.initial_states) {
    const PersistentBuffer& buffer = plan_.buffer(state.name);
    std::vector<std::byte> bytes(static_cast<size_t>(elements(state.name) * dtype_bytes(buffer.type.dtype)));
    const View view{bytes.data(), buffer.type.dtype};
    for (int64_t i = 0; i < elements(state.name); ++i) view.store(i, state.value);
    backend_->write(buffer.space, buffer.offset, bytes);
  }
  updated_ = false;
}

bool is_idle(const BoundProgram& program, const BoundOp& op, DeferredWork deferred) {
  return deferred == DeferredWork::kNothing && program.plan->ops[op.index].is_deferred;
}

void add_cost(OpTime& time, const BoundProgram& program, uint32_t index) {
  ++time.runs;
  const OpView view{program.plan->graph, program.plan->graph.ops()[index]};
  const Cost cost = schema_of(view.op).cost(view, program.bucket);
  time.flops += cost.flops;
  time.bytes += cost.bytes;
}

}  // namespace plimsoll
