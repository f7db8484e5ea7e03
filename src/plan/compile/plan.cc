#include "plan/compile/plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "plan/compile/kernel_choice.h"
#include "plan/compile/stage_plan.h"

namespace plimsoll {

std::string_view purpose_name(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeights:
      return "model weights";
    case Purpose::kOptimizerStates:
      return "optimizer states";
    case Purpose::kGradients:
      return "gradients";
    case Purpose::kSaved:
      return "saved for the backward pass";
    case Purpose::kTemporary:
      return "temporary buffers";
    case Purpose::kFunctionality:
      return "functionality-specific";
    case Purpose::kStaging:
      return "data staging";
    case Purpose::kConstant:
      return "device constant";
  }
  return "?";
}

const PersistentBuffer& Plan::buffer(const std::string& name) const {
  const auto it = persistent_by_name.find(name);
  PLIMSOLL_CHECK(it != persistent_by_name.end(), "the plan has no persistent buffer '{}'", name);
  return persistent[it->second];
}

ValueType Plan::type_of(const std::string& name) const {
  if (const auto split = split_weights.find(name); split != split_weights.end())
    return {DType::kF32, buffer(split->second.high).type.shape};
  if (!is_pipelined() || persistent_by_name.contains(name)) return buffer(name).type;
  const int64_t owner = owner_of(name);
  PLIMSOLL_CHECK(owner >= 0, "no pipeline stage has a tensor named '{}'", name);
  const StagePlan& stage = stages[static_cast<size_t>(owner)];
  const auto split = stage.split_weights.find(name);
  if (split == stage.split_weights.end()) return tensor_of_stages(name)->type;
  return {DType::kF32, tensor_of_stages(split->second.high)->type.shape};
}

int64_t Plan::owner_of(const std::string& name) const {
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].split_weights.contains(name) ||
        std::ranges::find(stages[i].tensors, name, &PersistentBuffer::name) != stages[i].tensors.end())
      return static_cast<int64_t>(i);
  }
  return -1;
}

const PersistentBuffer* Plan::tensor_of_stages(const std::string& name) const {
  const int64_t owner = owner_of(name);
  if (owner < 0) return nullptr;
  const std::vector<PersistentBuffer>& tensors = stages[static_cast<size_t>(owner)].tensors;
  const auto found = std::ranges::find(tensors, name, &PersistentBuffer::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::vector<std::string> Plan::state_names() const {
  std::vector<std::string> names;
  const auto add = [&](const std::vector<PersistentBuffer>& buffers, int64_t stage) {
    for (const PersistentBuffer& buffer : buffers) {
      if (buffer.storage == Storage::kOptimizerState && (!is_pipelined() || owner_of(buffer.name) == stage))
        names.push_back(buffer.name);
    }
  };
  for (size_t i = 0; i < stages.size(); ++i) add(stages[i].tensors, static_cast<int64_t>(i));
  if (!is_pipelined()) add(persistent, 0);
  return names;
}

int64_t Plan::staging_bytes() const {
  int64_t bytes = 0;
  for (const PersistentBuffer& buffer : persistent) {
    if (buffer.name == kStagedInputs) continue;
    if (buffer.storage == Storage::kInput || buffer.storage == Storage::kOutput) bytes += buffer.bytes;
  }
  return bytes;
}

int64_t Plan::num_parameters() const {
  int64_t n = 0;
  for (const WeightSpec& spec : weights) n += spec.elements();
  return n;
}

int64_t Plan::num_trainable_parameters() const {
  int64_t n = 0;
  for (const WeightSpec& spec : weights) n += spec.trainable ? spec.elements() : 0;
  return n;
}

CapturedGraphs GpuConstant::graphs_of(std::string_view program) const {
  const auto found = graphs.find(program);
  return found == graphs.end() ? CapturedGraphs{} : found->second;
}

int64_t GpuConstant::graph_bytes() const {
  int64_t bytes = 0;
  for (const auto& [program, held] : graphs) bytes += held.bytes;
  return bytes;
}

int64_t GpuConstant::graph_count() const {
  int64_t count = 0;
  for (const auto& [program, held] : graphs) count += held.count;
  return count;
}

ProgramPlan& Programs::add(ProgramPlan program) {
  PLIMSOLL_CHECK(!contains(program.name), "cannot add a second program named '{}' to the plan", program.name);
  return list_.emplace_back(std::move(program));
}

const ProgramPlan* Programs::find(std::string_view name) const {
  const auto found = std::ranges::find(list_, name, &ProgramPlan::name);
  return found == list_.end() ? nullptr : &*found;
}

ProgramPlan* Programs::find(std::string_view name) {
  return const_cast<ProgramPlan*>(std::as_const(*this).find(name));
}

const ProgramPlan& Programs::at(std::string_view name) const {
  const ProgramPlan* program = find(name);
  PLIMSOLL_CHECK(program != nullptr, "the plan has no program '{}'", name);
  return *program;
}

ProgramPlan& Programs::at(std::string_view name) {
  return const_cast<ProgramPlan&>(std::as_const(*this).at(name));
}

std::vector<BatchTensorSpec> batch_tensors(const Graph& graph) {
  std::vector<BatchTensorSpec> tensors;
  for (const Value& value : graph.values()) {
    if (value.storage != Storage::kInput || value.input.source != InputSource::kBatch) continue;
    const Shape& shape = value.type.shape;
    const Dim rows = shape[0];
    int64_t row_elements = 1;
    for (int i = 1; i < shape.rank(); ++i) {
      PLIMSOLL_CHECK(shape[i].is_constant(),
                     "only the first dimension of an input may depend on the bucket, but the input '{}' has "
                     "the shape {}",
                     value.name, format_shape(shape));
      row_elements *= shape[i].offset;
    }
    tensors.push_back({.name = value.name,
                       .dtype = is_floating(value.type.dtype) ? DType::kF32 : value.type.dtype,
                       .per_token = rows.symbol == Symbol::kTokens ? rows.factor * row_elements : 0,
                       .per_sequence = rows.symbol == Symbol::kSequences ? rows.factor * row_elements : 0,
                       .per_label = rows.symbol == Symbol::kLabels ? rows.factor * row_elements : 0,
                       .constant = rows.offset * row_elements,
                       .position_padding_id = value.input.position_padding_id});
  }
  return tensors;
}

Bucket usual_bucket(const Bucket& largest, double label_share) {
  Bucket bucket = largest;
  if (label_share >= 1.0) return bucket;
  const auto tokens = static_cast<double>(largest.tokens);
  const double deviation = std::sqrt(tokens * label_share * (1.0 - label_share));
  constexpr int64_t kStep = 16;
  const auto most = static_cast<int64_t>(std::ceil(tokens * label_share + 7.0 * deviation)) + kStep;
  const int64_t labels = (most + kStep - 1) / kStep * kStep;
  if (labels < largest.tokens) bucket.labels = labels;
  return bucket;
}

std::vector<Bucket> make_ladder(const Bucket& largest, int64_t smallest, double label_share,
                                int64_t multiple) {
  PLIMSOLL_CHECK(largest.tokens % multiple == 0,
                 "the tokens of the largest bucket must be a multiple of {}, but there are {}", multiple,
                 largest.tokens);
  std::vector<Bucket> ladder;
  const auto add = [&](int64_t at_least) {
    const int64_t tokens = (at_least + multiple - 1) / multiple * multiple;
    if (tokens >= largest.tokens || (!ladder.empty() && ladder.back().tokens == tokens)) return;
    ladder.push_back(usual_bucket(
        {.tokens = tokens, .sequences = largest.sequences, .longest = largest.longest}, label_share));
  };
  for (int64_t tokens = smallest; tokens < std::min<int64_t>(16, largest.tokens); tokens *= 2) add(tokens);
  int64_t tokens = 16;
  while (tokens < largest.tokens) {
    add(tokens);
    int64_t octave = 16;
    while (octave * 2 <= tokens) octave *= 2;
    tokens += std::max<int64_t>(16, octave / 16);
  }
  if (const Bucket usual = usual_bucket(largest, label_share); usual != largest) ladder.push_back(usual);
  ladder.push_back(largest);
  return ladder;
}

const Bucket& bucket_for(const ProgramPlan& program, const BatchSize& batch) {
  const auto it = std::ranges::partition_point(program.ladder, [&](const Bucket& bucket) {
    return bucket.tokens < batch.tokens || bucket.label_rows() < batch.label_rows();
  });
  PLIMSOLL_CHECK(it != program.ladder.end(),
                 "a batch of {} tokens with {} labels does not fit into the largest bucket of the program, "
                 "which has {} tokens",
                 batch.tokens, batch.label_rows(), program.bucket.tokens);
  return *it;
}

namespace {

// If optimizer states are on a disk, uses the memory that a plan leaves below the limit to read them earlier and write them later, while
// ops run, so that a step takes less time. Returns the given plan if the changed one does not fit.
Plan plan_with_spare_memory(Plan plan, const PlanRequest& request,
                            const std::function<PlanGraphs(const PlanRequest&)>& graphs_of) {
  PlanRequest roomy = request;
  roomy.offload.extra_state_bytes = *request.memory_limit_bytes - plan.total_bytes();
  if (roomy.offload.extra_state_bytes <= 0) return plan;
  Plan faster = place_plan(roomy, graphs_of(roomy));
  return faster.fits() ? std::move(faster) : std::move(plan);
}

}  // namespace

Plan plan_within_limit(const PlanRequest& request,
                       const std::function<PlanGraphs(const PlanRequest&)>& graphs_of) {
  Plan plan = place_plan(request, graphs_of(request));
  const bool has_early_states = request.update.offload_states && request.offload.early_states;
  const bool has_saved_in_room = request.offload.activations && request.offload.saved_in_headroom;
  if (plan.fits() && has_early_states && request.update.states_on_disk && request.memory_limit_bytes) {
    return plan_with_spare_memory(std::move(plan), request, graphs_of);
  }
  if (plan.fits() || (!has_early_states && !has_saved_in_room)) return plan;
  PlanRequest least = request;
  least.offload.early_states = least.offload.saved_in_headroom = false;
  Plan smaller = place_plan(least, graphs_of(least));
  if (smaller.total_bytes() < plan.total_bytes()) return smaller;
  return plan;
}

Plan build_plan(const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan =
      request.ranks.pipeline_size > 1 ? build_stage_plan(request) : plan_within_limit(request, build_graphs);
  // Refuses --kernels that no op uses. In a pipeline these ops may be in any stage, so build_stage_plan() checks it for all stages.
  if (!plan.is_pipelined()) {
    std::vector<std::string> unused = request.device.forced_kernels;
    remove_used_kernels(unused, plan.programs);
    refuse_unused_kernels(unused);
  }
  plan.build_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace plimsoll
