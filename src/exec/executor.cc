#include "exec/executor.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "exec/bound_op.h"
#include "graph/ops/chunk.h"

namespace plimsoll {

Executor::Executor(const Plan& plan, const ExecutorOptions& options)
    : plan_(plan),
      connections_(options.connections),
      backend_(plan.is_on_gpu() ? make_cuda_backend(plan, options) : make_cpu_backend(plan, options)),
      runs_ahead_(plan.is_on_gpu() || options.runs_ahead) {
  for (const ProgramPlan& source : plan.programs) {
    Program& program = programs_[source.name];
    program.plan = &source;
    program.times.resize(source.graph.ops().size());
    program.first_times.resize(program.times.size());
    for (const Value& value : source.graph.values()) {
      if (value.storage == Storage::kInput) program.inputs.push_back(&plan.buffer(value.name));
    }
  }
}

Executor::~Executor() {
  Communicator* stages = plan_.is_pipelined() ? connections_.of(MeshAxis::kPipeline).ranks : nullptr;
  if (stages == nullptr) return;
  const StagePlan& own = plan_.stages[static_cast<size_t>(plan_.request.ranks.stage)];
  const auto wait = [&](const std::vector<StageAction>& actions) {
    for (const StageAction& action : actions) {
      if (action.kind == StageAction::Kind::kSend)
        stages->wait_sent({static_cast<int>(action.peer), action.channel});
    }
  };
  try {
    for (const std::vector<StageAction>& actions : own.train) wait(actions);
    wait(own.evaluate);
  } catch (const Error&) {
    return;
  }
}

Executor::Program& Executor::program_of(std::string_view name) {
  return const_cast<Program&>(std::as_const(*this).program_of(name));
}

const Executor::Program& Executor::program_of(std::string_view name) const {
  const auto found = programs_.find(name);
  PLIMSOLL_CHECK(found != programs_.end(), "the plan has no program '{}'", name);
  return found->second;
}

View Executor::tensor(const std::string& name) {
  const PersistentBuffer& buffer = plan_.buffer(name);
  if (buffer.storage == Storage::kOutput) backend_->before_host_reads();
  PLIMSOLL_CHECK(buffer.is_whole(),
                 "cannot return the whole tensor '{}': it is divided among the ranks; use read() and write()",
                 name);
  PLIMSOLL_CHECK(
      !plan_.is_on_gpu() || buffer.storage == Storage::kOutput || buffer.storage == Storage::kInput,
      "cannot return an address of '{}': it is in GPU memory; use read() and write(), which copy", name);
  if (is_persistent(buffer.storage)) {
    run_deferred_updates();
    backend_->wait();
  }
  PLIMSOLL_CHECK(
      buffer.space != Space::kDisk,
      "cannot return an address of '{}': it is stored on a disk; use read() and write(), which copy", name);
  // On a CPU both arenas are directly accessible, so the address of any persistent buffer can be returned.
  if (buffer.space == Space::kHost)
    return {backend_->arena(Space::kHost).at(buffer.offset), buffer.type.dtype};
  return {backend_->exchange(buffer.offset), buffer.type.dtype};
}

int64_t Executor::elements(const std::string& name) const {
  const Shape shape = plan_.type_of(name).shape;
  PLIMSOLL_CHECK(!shape.depends_on_bucket(),
                 "'{}' has no fixed number of elements, because its size depends on the batch", name);
  return shape.elements({});
}

namespace {

// Checks the indices of an input that selects rows of a table, such as token ids, because kernels do not check them.
void check_rows(const PersistentBuffer& input, std::span<const int32_t> rows) {
  for (const int32_t row : rows) {
    PLIMSOLL_CHECK(row >= 0 && row < input.input.table_rows,
                   "an index in the tensor '{1}' of a batch must be at least 0 and below {2}, the number of "
                   "rows of its table, but is {0}",
                   row, input.name, input.input.table_rows);
  }
}

// Checks the lengths of the sequences. `starts`: the start of each sequence, and at the end the number of tokens.
void check_sequences(const PersistentBuffer& input, std::span<const int32_t> starts, const Bucket& bucket) {
  for (size_t i = 1; i < starts.size(); ++i) {
    const int64_t length = starts[i] - starts[i - 1];
    PLIMSOLL_CHECK(length >= 0 && length <= bucket.longest,
                   "a sequence of a batch has {} tokens according to '{}', but the program is compiled for "
                   "sequences of 0 to {} tokens",
                   length, input.name, bucket.longest);
  }
}

// Checks an input that selects rows of a value with `tokens` rows. Such an input contains 0 and then, in ascending order, the index of each
// selected row plus 1.
void check_row_ends(const PersistentBuffer& input, std::span<const int32_t> ends, int64_t tokens) {
  PLIMSOLL_CHECK(
      !ends.empty() && ends.front() == 0 && ends.back() <= tokens,
      "the input '{}', which selects rows, must begin with 0, and its last element must be at most the "
      "number of tokens (it has {} elements, the batch has {} tokens)",
      input.name, ends.size(), tokens);
  for (size_t i = 1; i < ends.size(); ++i) {
    PLIMSOLL_CHECK(ends[i] > ends[i - 1],
                   "the elements of the input '{2}', which selects rows, must increase, but {0} follows {1}",
                   ends[i], ends[i - 1], input.name);
  }
}

// Buffers for the upper and the lower halves of a range of a split weight, which is stored as two 16-bit values per fp32 element.
struct Halves {
  std::vector<uint16_t> high, low;
  explicit Halves(size_t whole_bytes) : high(whole_bytes / 4), low(whole_bytes / 4) {
    PLIMSOLL_CHECK(
        whole_bytes % 4 == 0,
        "a weight that is stored as two 16-bit halves is accessed in whole fp32 elements, but {} bytes "
        "is not a multiple of 4",
        whole_bytes);
  }
};

}  // namespace

const PersistentBuffer* Executor::input_with(InputSource source) const {
  for (const auto& [name, program] : programs_) {
    for (const PersistentBuffer* input : program.inputs) {
      if (input->input.source == source) return input;
    }
  }
  return nullptr;
}

void Executor::fill_input(const PersistentBuffer& input, const TensorBatch& batch, const Bucket& bucket) {
  const View to = input_view(input);
  const int64_t parts = input.type.shape.row_ranks();
  // `room` is the number of values that fit into the input. If several ranks divide the rows of the input, `room` counts the values of all
  // these ranks; this rank stores `count` of them, beginning with value number `first`.
  const int64_t room = parts * input.type.shape.elements(bucket);
  const int64_t count = room / parts;
  const int64_t first = parts > 1 ? count * connections_.of(MeshAxis::kTensor).ranks->rank() : 0;
  const auto check_room = [&](size_t used) {
    PLIMSOLL_CHECK(static_cast<int64_t>(used) <= room,
                   "a batch has {} values for the input '{}', which has room for {}", used, input.name, room);
  };
  if (is_floating(to.dtype)) {
    const std::span<const float> values = batch.floats(input.name);
    check_room(values.size());
    for (int64_t i = 0; i < count; ++i) {
      to.store(i, first + i < std::ssize(values) ? static_cast<double>(values[static_cast<size_t>(first + i)])
                                                 : input.input.unused);
    }
    return;
  }
  const std::span<const int32_t> values = batch.ints(input.name);
  check_room(values.size());
  int32_t unused = input.input.unused;
  if (input.input.content == InputContent::kTableRows) check_rows(input, values);
  if (input.input.content == InputContent::kSequenceStarts) {
    check_sequences(input, values, bucket);
    unused = static_cast<int32_t>(batch.size().tokens);
  }
  if (input.input.content == InputContent::kRowEnds) {
    check_row_ends(input, values, batch.size().tokens);
    unused = values.back();
  }
  int32_t* destination = to.as<int32_t>();
  const std::span<const int32_t> own = values.subspan(std::min(values.size(), static_cast<size_t>(first)));
  const size_t used = std::min(own.size(), static_cast<size_t>(count));
  std::copy_n(own.begin(), used, destination);
  std::fill(destination + used, destination + count, unused);
}

void Executor::fill_own_starts(const PersistentBuffer& input, const TensorBatch& batch,
                               const Bucket& bucket) {
  const Communicator& group = *connections_.of(MeshAxis::kTensor).ranks;
  const int64_t rows = bucket.tokens / group.size();
  const std::span<const int32_t> starts = batch.ints("cu_seqlens");
  int32_t* destination = input_view(input).as<int32_t>();
  for (int64_t i = 0; i < input.type.shape.elements(bucket); ++i) {
    const int64_t start = i < std::ssize(starts) ? starts[static_cast<size_t>(i)] : batch.size().tokens;
    destination[i] = static_cast<int32_t>(std::clamp<int64_t>(start - group.rank() * rows, 0, rows));
  }
}

void Executor::stage(std::string_view name, const TensorBatch& batch, double denominator,
                     PassOfMicroBatch pass) {
  Program& target = program_of(name);
  const int64_t tokens = batch.size().tokens;
  const int64_t sequences = batch.size().sequences;
  const Bucket bucket = bucket_for(*target.plan, batch.size());
  PLIMSOLL_CHECK(
      sequences >= 1 && sequences <= bucket.sequences,
      "a batch must have at least one sequence, and at most as many as its program is compiled for, but "
      "has {} sequences, and the program is compiled for {}",
      sequences, bucket.sequences);
  target.bucket = bucket;
  target.staged = {
      .tokens = tokens, .sequences = sequences, .longest = bucket.longest, .labels = batch.size().labels};
  PLIMSOLL_CHECK(pass.slot >= 0 && pass.slot < target.plan->num_slots,
                 "a micro-batch stores its activations in memory slot {}, but the program has only {} slots",
                 pass.slot, target.plan->num_slots);
  target.bound = &bound_for(target, bucket, pass);
  backend_->before_host_writes(Inputs::kBatch);
  for (const PersistentBuffer* input : target.inputs) {
    switch (input->input.source) {
      case InputSource::kBatch:
        fill_input(*input, batch, bucket);
        break;
      case InputSource::kOwnStarts:
        fill_own_starts(*input, batch, bucket);
        break;
      case InputSource::kNumSequences:
        input_view(*input).store(0, static_cast<double>(sequences));
        break;
      case InputSource::kDenominator:
        input_view(*input).store(0, denominator);
        break;
      case InputSource::kRandom:
      case InputSource::kAccumulate:
      case InputSource::kLearningRate:
      case InputSource::kUpdateNumber:
        // Inputs with these sources are written by set_random(), set_accumulate() and set_update().
        break;
    }
  }
}

void Executor::set_random(uint64_t seed, int64_t micro_batch) {
  const PersistentBuffer* input = input_with(InputSource::kRandom);
  if (input == nullptr) return;
  backend_->before_host_writes(Inputs::kBatch);
  int64_t* rng = input_view(*input).as<int64_t>();
  rng[0] = static_cast<int64_t>(seed);
  rng[1] = micro_batch;
}

void Executor::set_accumulate(bool add) {
  const PersistentBuffer* input = input_with(InputSource::kAccumulate);
  if (input == nullptr) return;
  backend_->before_host_writes(Inputs::kBatch);
  // If set, the flag is 1.0f: kernels test if its bits are 0, and the library of matrix products on a GPU uses it as a factor.
  input_view(*input).as<int32_t>()[0] = add ? std::bit_cast<int32_t>(1.0f) : 0;
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
  const PersistentBuffer* number = input_with(InputSource::kUpdateNumber);
  PLIMSOLL_CHECK(number != nullptr, "cannot set the learning rate: no program of the plan updates weights");
  // Parameters whose learning rate is multiplied by a factor of their own read it from a separate input.
  for (const PersistentBuffer* input : program_of(kTrainProgram).inputs) {
    if (input->input.source == InputSource::kLearningRate)
      input_view(*input).as<double>()[0] = learning_rate * input->input.factor;
  }
  input_view(*number).as<int64_t>()[0] = step - skipped;
}

ConstView Executor::fetched(const std::string& name) {
  const PersistentBuffer& buffer = plan_.buffer(name);
  PLIMSOLL_CHECK(buffer.storage == Storage::kOutput,
                 "only outputs of a program are fetched to the host, but '{}' is not an output", name);
  return {backend_->fetched(buffer.offset), buffer.type.dtype};
}

StepOutputs Executor::fetched_step() {
  const bool scales = plan_.scales_loss();
  const bool has_loss = plan_.persistent_by_name.contains("loss");
  return {.loss = has_loss ? fetched("loss").load(0) : 0.0,
          .grad_norm = fetched("grad_norm").load(0),
          .is_finite = fetched("finite").load(0) != 0.0,
          .first_bad = bad_gradient(fetched("first_bad")),
          .loss_scale = scales ? fetched("used_loss_scale").load(0) : 1.0,
          .skipped_steps = scales ? read_integer(fetched("skipped_steps")) : 0};
}

BoundProgram& Executor::bound_for(Program& target, const Bucket& bucket, PassOfMicroBatch pass) {
  const bool has_chunks = !target.plan->chunk_slots.empty();
  BoundProgram& bound =
      target.by_size[{bucket.tokens, bucket.label_rows(), pass.slot, has_chunks ? pass.chunk : 0}];
  if (!bound.ops.empty()) return bound;
  bound.plan = target.plan;
  bound.bucket = bucket;
  bound.ops.reserve(target.plan->graph.ops().size());
  for (uint32_t i = 0; i < target.plan->graph.ops().size(); ++i) {
    // If the stage has several chunks of layers, bind only the ops of this chunk. The optimizer's ops belong to chunk 0,
    // whose backward pass is the last.
    if (has_chunks && chunk_of(target.plan->graph.ops()[i]) != pass.chunk) continue;
    const ArenaMaps arenas{backend_->arena(Space::kDevice), backend_->arena(Space::kHost), backend_->disk()};
    const BindContext context(plan_, *target.plan, bucket, arenas, connections_, i, pass.slot);
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
    if (whole_copy_of_slices(weight) != nullptr) continue;
    if (weight.space == Space::kDisk) {
      copy_weights_from_disk(weight, copy);
      continue;
    }
    backend_->copy_weights(ConstView{backend_->arena(weight.space).at(weight.offset), weight.type.dtype},
                           View{backend_->arena(copy.space).at(copy.offset), copy.type.dtype},
                           weight.elements());
  }
}

// Reads a weight from the disk in parts, into a buffer that the device can access, and rounds each part into the 16-bit copy.
void Executor::copy_weights_from_disk(const PersistentBuffer& weight, const PersistentBuffer& copy) {
  const int64_t width = dtype_bytes(weight.type.dtype), copy_width = dtype_bytes(copy.type.dtype);
  const std::span<std::byte> piece = backend_->disk()->idle_buffer();
  const int64_t at_once = std::ssize(piece) / width;
  for (int64_t first = 0; first < weight.elements(); first += at_once) {
    const int64_t count = std::min(at_once, weight.elements() - first);
    backend_->read(weight.space, weight.offset + first * width,
                   piece.first(static_cast<size_t>(count * width)));
    backend_->copy_weights(
        ConstView{piece.data(), weight.type.dtype},
        View{backend_->arena(copy.space).at(copy.offset + first * copy_width), copy.type.dtype}, count);
    backend_->wait();
  }
}

void Executor::run(std::string_view name, Segment segment) {
  Program& target = program_of(name);
  PLIMSOLL_CHECK(target.bound != nullptr, "stage() must be called before run(), but no batch is staged");
  const bool is_training = name == kTrainProgram;
  DeferredWork deferred = DeferredWork::kNothing;
  if (is_training && segment == Segment::kForward) {
    if (std::exchange(deferred_program_, nullptr) != nullptr) deferred = DeferredWork::kSomething;
  } else {
    run_deferred_updates();
  }
  refresh_copies();
  if (segment == Segment::kOptimizer) updated_ = true;
  is_train_undisturbed_ = is_training;
  const bool is_first = !std::exchange(target.bound->has_run[index_of(segment)], true);
  if (is_first) note_scratch(*target.plan, segment);
  if (profiling_) {
    backend_->run_timed(*target.bound, segment, deferred, is_first ? target.first_times : target.times);
  } else {
    backend_->run(*target.bound, segment, deferred);
  }
  if (target.plan->deferred_after == segment) deferred_program_ = target.bound;
}

void Executor::run_and_fetch(std::string_view name) {
  Program& target = program_of(name);
  if (profiling_) {
    run(name, Segment::kForward);
    return fetch();
  }
  PLIMSOLL_CHECK(target.bound != nullptr && name != kTrainProgram,
                 "run_and_fetch() needs a staged batch and a program other than '{}'", kTrainProgram);
  run_deferred_updates();
  refresh_copies();
  is_train_undisturbed_ = false;
  if (!std::exchange(target.bound->has_run[index_of(Segment::kForward)], true))
    note_scratch(*target.plan, Segment::kForward);
  backend_->run_and_fetch(*target.bound, Segment::kForward);
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

// Lists the operands of the update ops by parameter, for update rules that the caller implements.

std::vector<UpdatedParameter> Executor::updated_parameters() {
  const ProgramPlan& program_plan = *program_of(kTrainProgram).plan;
  const Graph& graph = program_plan.graph;
  PLIMSOLL_CHECK(plan_.host_arena_bytes == 0 && plan_.disk_bytes == 0,
                 "cannot return the optimizer states: they are stored in host memory or on a disk, and "
                 "updates work on temporary copies");
  backend_->wait();
  const auto view_of = [&](ValueId id) {
    return View{backend_->arena(Space::kDevice).at(program_plan.offsets[index_of(id)]),
                graph.value(id).type.dtype};
  };
  std::vector<UpdatedParameter> parameters;
  for (const Op& op : graph.ops()) {
    if (op.segment != Segment::kOptimizer) continue;
    // The inputs of an update op (graph/ops/update.h) are a weight, its gradient and its states, and then the same for the next weight.
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNoValue) continue;
      const Value& value = graph.value(op.inputs[i]);
      if (value.storage == Storage::kWeight) {
        PLIMSOLL_CHECK(i + 1 < op.inputs.size(),
                       "the operand after the weight '{}' of an update must be its gradient, but the op has "
                       "no further operand",
                       value.name);
        parameters.push_back({.name = value.name,
                              .count = value.type.shape.elements(program_plan.bucket),
                              .weight = view_of(op.inputs[i]),
                              .gradient = view_of(op.inputs[i + 1]),
                              .states = {}});
      } else if (value.storage == Storage::kOptimizerState && !parameters.empty() &&
                 value.type.shape.elements(program_plan.bucket) == parameters.back().count) {
        parameters.back().states.push_back(view_of(op.inputs[i]));
      }
    }
  }
  return parameters;
}

View BindContext::place(ValueId id) const {
  if (id == kNoValue) return {};
  const int64_t offset = program_.offsets[index_of(id)];
  if (offset < 0) return {};
  const Value& value = program_.graph.value(id);
  PLIMSOLL_CHECK(value.space != Space::kDisk,
                 "the op '{}' cannot access '{}', which is stored on a disk; only copies can",
                 op().def->name(), value.name);
  const int64_t arena_bytes = plan_.arena_bytes_of(value.space);
  PLIMSOLL_CHECK(offset + value.bytes(bucket_) <= arena_bytes,
                 "the tensor '{}' must be inside its arena, but ends at byte {} of {}", value.name,
                 offset + value.bytes(bucket_), arena_bytes);
  if (value.bytes(program_.bucket) == 0) return {arenas_.device.at(0), value.type.dtype};
  if (value.space == Space::kDevice)
    return {arenas_.device.at(program_.in_slot(offset, slot_)), value.type.dtype};
  return {arenas_.host.at(offset), value.type.dtype};
}

bool BindContext::is_constant_weight(int i) const {
  const ValueId id = op().inputs[static_cast<size_t>(i)];
  const Graph& graph = program_.graph;
  const Value& value = graph.value(id);
  if (value.storage != Storage::kWeight || value.producer != kNoOp) return false;
  return std::ranges::none_of(graph.values(), [&](const Value& other) { return other.version_of == id; });
}

View BindContext::scratch() const {
  const OpPlan& plan = program_.ops[index_];
  return plan.scratch_bytes > 0 ? View{arenas_.device.at(plan.scratch_offset), DType::kU8} : View{};
}

ConstView BindContext::input_with(InputRole role) const {
  const int i = schema().input_with(role);
  return i >= 0 ? input(i) : ConstView{};
}

View BindContext::output_row(int row) const {
  for (int i = 0; i < view().num_outputs(); ++i) {
    if (schema().output_row(view(), i) == row) return output(i);
  }
  return {};
}

}  // namespace plimsoll
