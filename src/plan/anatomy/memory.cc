#include "plan/anatomy/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

int64_t sum_of(const PurposeBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

PurposeBytes persistent_bytes(const Plan& plan) {
  PurposeBytes sums{};
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.space == Space::kDevice) sums[index_of(purpose_of(buffer.storage))] += buffer.bytes;
  }
  return sums;
}

// For each op of a program, returns the bytes of transient buffers that are live while it runs, by purpose.
std::vector<PurposeBytes> transient_by_op(const ProgramPlan& program) {
  std::vector<PurposeBytes> change(program.graph.ops().size() + 1);
  for (const TransientBuffer& buffer : program.buffers) {
    change[buffer.first][index_of(buffer.purpose)] += buffer.bytes;
    change[buffer.last + 1][index_of(buffer.purpose)] -= buffer.bytes;
  }
  for (size_t i = 1; i < change.size(); ++i) {
    for (size_t p = 0; p < kNumPurposes; ++p) change[i][p] += change[i - 1][p];
  }
  change.pop_back();
  return change;
}

size_t position_of_peak(const std::vector<PurposeBytes>& by_op) {
  const auto less = [](const PurposeBytes& a, const PurposeBytes& b) { return sum_of(a) < sum_of(b); };
  return static_cast<size_t>(std::max_element(by_op.begin(), by_op.end(), less) - by_op.begin());
}

PeakPlace place_at(const ProgramPlan& program, Phase phase, size_t position, int64_t live) {
  const Op& op = program.graph.ops()[position];
  return {.phase = phase,
          .position = position,
          .num_ops = program.graph.ops().size(),
          .op = std::string(op.def->name()),
          .output = op.outputs.empty() ? "" : program.graph.value(op.outputs[0]).name,
          .module = program.graph.module_name(op.module),
          .segment = op.segment,
          .live_bytes = live};
}

// Completes the memory of a phase: computes the used, unused and total bytes from the bytes by purpose and the gaps between buffers.
PhaseMemory finished(const Plan& plan, PhaseMemory column) {
  column.arena_bytes = sum_of(column.by_purpose) + column.gaps_bytes;
  column.unused_bytes = plan.arena_bytes - column.arena_bytes;
  PLIMSOLL_CHECK(column.unused_bytes >= 0,
                 "phase {} uses {} bytes, which must not be more than the arena of {} bytes",
                 phase_name(column.phase), column.arena_bytes, plan.arena_bytes);
  column.constant_bytes = plan.constant_bytes();
  column.by_purpose[index_of(Purpose::kConstant)] = column.constant_bytes;
  column.total_bytes = column.arena_bytes + column.constant_bytes;
  return column;
}

PhaseMemory storage_phase(const Plan& plan, Phase phase, std::initializer_list<Purpose> purposes) {
  const PurposeBytes persistent = persistent_bytes(plan);
  PhaseMemory column{.phase = phase};
  for (Purpose purpose : purposes) column.by_purpose[index_of(purpose)] = persistent[index_of(purpose)];
  return finished(plan, column);
}

PhaseMemory program_phase(const Plan& plan, const ProgramPlan& program, Phase phase, PeakPlace& peak) {
  const std::vector<PurposeBytes> by_op = transient_by_op(program);
  PLIMSOLL_CHECK(!by_op.empty(), "program '{}' must have at least one op, but has none", program.name);
  const size_t position = position_of_peak(by_op);
  const int64_t live = sum_of(by_op[position]);
  PhaseMemory column{.phase = phase, .by_purpose = persistent_bytes(plan)};
  for (size_t p = 0; p < kNumPurposes; ++p) column.by_purpose[p] += by_op[position][p];
  column.gaps_bytes = program.transient_bytes - live;
  peak = place_at(program, phase, position, live);
  return finished(plan, column);
}

// Returns the description of captured CUDA graphs, such as "captured programs (27 graphs of training, 4 of evaluation)".
std::string describe_captured(const GpuConstant& constant) {
  std::string counts;
  const auto add = [&](const CapturedGraphs& graphs, const char* program) {
    if (graphs.count == 0) return;
    const char* noun = !counts.empty() ? "" : graphs.count == 1 ? " graph" : " graphs";
    counts += fmt::format("{}{}{} of {}", counts.empty() ? "" : ", ", graphs.count, noun, program);
  };
  add(constant.graphs_of(kTrainProgram), "training");
  add(constant.graphs_of(kEvaluateProgram), "evaluation");
  add(constant.graphs_of(kGenerateProgram), "generation");
  return counts.empty() ? "captured programs" : fmt::format("captured programs ({})", counts);
}

}  // namespace

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kLoad:
      return "load";
    case Phase::kResume:
      return "resume";
    case Phase::kTrain:
      return "train";
    case Phase::kEvaluate:
      return "eval";
    case Phase::kGenerate:
      return "generate";
    case Phase::kSave:
      return "save";
  }
  return "?";
}

std::set<DType> gradient_dtypes(const ProgramPlan& train) {
  std::set<DType> found;
  for (const Op& op : train.graph.ops()) {
    if (op.def != &global_norm_op()) continue;
    for (ValueId id : op.inputs) {
      // The op that computes the global norm also reads the loss, to check that it is finite. The loss is not a gradient, so it is
      // skipped.
      const Value& value = train.graph.value(id);
      if (value.storage != Storage::kOutput) found.insert(value.type.dtype);
    }
  }
  return found;
}

Purpose purpose_of(Storage storage) {
  switch (storage) {
    case Storage::kTransient:
      return Purpose::kTemporary;
    case Storage::kWeight:
      return Purpose::kWeights;
    case Storage::kOptimizerState:
      return Purpose::kOptimizerStates;
    case Storage::kGradient:
      return Purpose::kGradients;
    case Storage::kInput:
    case Storage::kOutput:
      return Purpose::kStaging;
    case Storage::kCache:
    case Storage::kMessage:
    case Storage::kDeferred:
      return Purpose::kFunctionality;
  }
  return Purpose::kTemporary;
}

PurposeBytes host_purposes(const Plan& plan) {
  PurposeBytes bytes{};
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.space == Space::kHost) bytes[index_of(purpose_of(buffer.storage))] += buffer.bytes;
  }
  bytes[index_of(Purpose::kSaved)] += plan.host_arena_bytes - plan.host_persistent_bytes;
  return bytes;
}

const PhaseMemory* MemoryAnatomy::find(Phase phase) const {
  const auto it =
      std::find_if(phases.begin(), phases.end(), [&](const PhaseMemory& p) { return p.phase == phase; });
  return it == phases.end() ? nullptr : &*it;
}

const PeakPlace* MemoryAnatomy::peak_of(Phase phase) const {
  const auto it =
      std::find_if(peaks.begin(), peaks.end(), [&](const PeakPlace& p) { return p.phase == phase; });
  return it == peaks.end() ? nullptr : &*it;
}

// Returns the name of the mechanism (such as NCCL) through which the GPUs of a run exchange data.
static std::string_view describe_exchanges(const RankOptions& ranks) {
  const bool maps = ranks.maps_any_peers();
  const bool uses_nccl = (ranks.data_size() > 1 && !ranks.maps_peers) ||
                         (ranks.tensor_size > 1 && !ranks.tensor_maps_peers) ||
                         (ranks.pipeline_size > 1 && !ranks.pipeline_maps_peers);
  return maps && uses_nccl ? "mapped memory and NCCL" : maps ? "mapped memory" : "NCCL";
}

MemoryAnatomy memory_anatomy(const Plan& plan) {
  MemoryAnatomy anatomy;
  anatomy.phases.push_back(storage_phase(plan, Phase::kLoad, {Purpose::kWeights}));
  const PhaseMemory stored =
      storage_phase(plan, Phase::kResume, {Purpose::kWeights, Purpose::kOptimizerStates});
  if (stored.arena_bytes != anatomy.phases.front().arena_bytes) anatomy.phases.push_back(stored);
  for (const ProgramPlan& program : plan.programs) {
    const Phase phase = program.name == kTrainProgram      ? Phase::kTrain
                        : program.name == kGenerateProgram ? Phase::kGenerate
                                                           : Phase::kEvaluate;
    anatomy.phases.push_back(program_phase(plan, program, phase, anatomy.peaks.emplace_back()));
  }
  if (plan.trains()) {
    anatomy.phases.push_back(stored);
    anatomy.phases.back().phase = Phase::kSave;
  }
  for (size_t i = 0; i < anatomy.phases.size(); ++i) {
    if (anatomy.phases[i].total_bytes > anatomy.phases[anatomy.largest].total_bytes) anatomy.largest = i;
  }
  if (plan.is_on_gpu()) {
    anatomy.constants = {{"context, modules and libraries", plan.gpu_constant.context_bytes},
                         {describe_captured(plan.gpu_constant), plan.gpu_constant.graph_bytes()}};
    if (plan.gpu_constant.communicator_bytes > 0) {
      anatomy.constants.push_back(
          {fmt::format("{} of {} GPUs", describe_exchanges(plan.request.ranks), plan.request.ranks.count),
           plan.gpu_constant.communicator_bytes});
    }
    return anatomy;
  }
  const HostMemory& host = plan.host;
  anatomy.constants = {{"program and libraries", host.process_bytes + host.library_bytes},
                       {"data set and batches", host.data_bytes},
                       {"file buffers", host.io_bytes}};
  if (host.checkpoint_bytes > 0) anatomy.constants.push_back({"copy for checkpoints", host.checkpoint_bytes});
  return anatomy;
}

MemoryTimeline memory_timeline(const Plan& plan, const ProgramPlan& program) {
  MemoryTimeline timeline;
  timeline.by_op = transient_by_op(program);
  const PurposeBytes persistent = persistent_bytes(plan);
  for (PurposeBytes& bytes : timeline.by_op) {
    for (size_t p = 0; p < kNumPurposes; ++p) bytes[p] += persistent[p];
  }
  for (const Op& op : program.graph.ops()) timeline.segments.push_back(op.segment);
  timeline.peak = position_of_peak(timeline.by_op);
  return timeline;
}

std::string describe_module(std::string_view module) {
  std::string words;
  const size_t layer = module.find("layer.");
  if (layer != std::string_view::npos) {
    const std::string_view rest = module.substr(layer + 6);
    const size_t dot = rest.find('.');
    words = "layer " + std::string(rest.substr(0, dot));
    module = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    if (!module.empty()) words += ", ";
  }
  for (char c : module) words += c == '_' ? '-' : c == '.' ? ' ' : c;
  return words;
}

}  // namespace plimsoll
