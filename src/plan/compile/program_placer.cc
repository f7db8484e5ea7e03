#include "plan/compile/program_placer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "plan/compile/schedule.h"

namespace plimsoll {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

bool is_read(const Graph& graph, ValueId id) {
  return std::ranges::any_of(
      graph.ops(), [id](const Op& op) { return std::ranges::find(op.inputs, id) != op.inputs.end(); });
}

// Returns true for a copy of an activation (a transient value), and false for a copy of a value that is kept between runs of the program.
bool moves_activation(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && graph.value(op.inputs.front()).storage == Storage::kTransient &&
         graph.value(op.outputs.front()).storage == Storage::kTransient;
}

// Returns true for a send or receive that a library executes. The next send or receive waits until this one has ended. Because the next one
// may be in another part of the program (segment), the segment cannot be captured as a CUDA graph.
bool is_library_message(const Op& op) {
  return (op.def == &send_op() || op.def == &receive_op()) && !maps_peers(op.attributes);
}

std::vector<Segment> find_never_captured(const Graph& graph) {
  std::vector<Segment> segments;
  for (const Op& op : graph.ops()) {
    if (!moves_activation(graph, op) && !reads_disk(graph, op) && !writes_disk(graph, op) &&
        !is_library_message(op))
      continue;
    if (segments.empty() || segments.back() != op.segment) segments.push_back(op.segment);
  }
  return segments;
}

}  // namespace

ProgramPlacer::ProgramPlacer(Plan& plan, ProgramPlan& program)
    : kernels_(program.graph), buffers_(program.graph), cut_at_(layout_cut(program.graph)) {
  const Graph& graph = program.graph;
  static_cast<void>(find_tails(graph));
  roots_.reserve(graph.values().size());
  for (uint32_t i = 0; i < graph.values().size(); ++i) {
    roots_.push_back(static_cast<uint32_t>(root_of(graph, ValueId{i})));
  }
  enter_persistent(plan, program);
  program.ops.resize(graph.ops().size());
  for (size_t i = 0; i < program.ops.size(); ++i) program.ops[i].kind = kernels_.kinds().of_op[i];
  for (const QueuedOp& queued : buffers_.queued_ops()) {
    program.ops[queued.op].queue = queued.queue;
    program.ops[queued.op].queue_end = queued.end;
    const Op& op = graph.ops()[queued.op];
    program.ops[queued.op].uses_disk = reads_disk(graph, op) || writes_disk(graph, op);
  }
  const std::vector<bool> is_deferred = find_deferred_ops(graph);
  for (size_t i = 0; i < is_deferred.size(); ++i) program.ops[i].is_deferred = is_deferred[i];
  program.deferred_after = find_deferring_segment(graph, is_deferred);
  program.never_captured = find_never_captured(graph);
}

// Adds the persistent buffers of a program to the list that all programs of the plan share. Values with the same name
// share one buffer.
void ProgramPlacer::enter_persistent(Plan& plan, const ProgramPlan& program) {
  const Graph& graph = program.graph;
  buffer_of_.assign(graph.values().size(), kNone);
  plan.persistent.reserve(graph.values().size());
  for (uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const bool exchanged = value.storage == Storage::kInput || value.storage == Storage::kOutput;
    if (!exchanged && !is_persistent(value.storage)) continue;
    if (value.version_of != kNoValue) continue;
    const ValueType whole{value.type.dtype, value.split ? value.split->whole : value.type.shape};
    const auto [it, inserted] = plan.persistent_by_name.try_emplace(value.name, plan.persistent.size());
    buffer_of_[i] = static_cast<uint32_t>(it->second);
    persistent_.push_back({ValueId{i}, buffer_of_[i]});
    if (inserted) {
      plan.persistent.push_back({.name = value.name,
                                 .storage = value.storage,
                                 .type = whole,
                                 .module = graph.module_name(value.module),
                                 .space = value.space,
                                 .input = value.input,
                                 .divided = value.divided,
                                 .split = value.split});
      continue;
    }
    const PersistentBuffer& buffer = plan.persistent[it->second];
    PLIMSOLL_CHECK(
        buffer.storage == value.storage && buffer.type == whole,
        "'{}' must have one storage class and type in all programs, but is {} {} in one and {} {} in another",
        value.name, storage_name(buffer.storage), format_type(buffer.type), storage_name(value.storage),
        format_type(whole));
    PLIMSOLL_CHECK(buffer.divided == value.divided && buffer.split == value.split,
                   "'{}' must be divided among the ranks in the same way in all programs, but is not",
                   value.name);
    PLIMSOLL_CHECK(buffer.input == value.input,
                   "the input '{}' must be filled from the same source in all programs, but is not",
                   value.name);
    if (buffer.space == value.space) continue;
    // Programs must agree about the memory space of a persistent buffer, with one exception: if another program stores it on the host or on
    // a disk, this program may declare it on the device, as long as it does not read it.
    PLIMSOLL_CHECK(
        buffer.space != Space::kDevice && !is_read(graph, ValueId{i}),
        "'{}' must be in one memory space in all programs, but is in '{}' in one and in '{}' in another",
        value.name, space_name(buffer.space), space_name(value.space));
  }
}

void ProgramPlacer::grow_persistent(Plan& plan, const ProgramPlan& program) const {
  for (const Persistent& each : persistent_) {
    const int64_t bytes = program.graph.value(each.value).bytes(program.bucket);
    PersistentBuffer& buffer = plan.persistent[each.buffer];
    buffer.bytes = std::max(
        buffer.bytes, bytes_in_space(std::max<int64_t>(bytes, 1), buffer.space, plan.request.device.kind));
  }
}

void ProgramPlacer::lay_out(ProgramPlan& program, const PlanRequest& request) {
  kernels_.choose(program, request);
  // The ladder (list of batch sizes) of a generation program also has sizes below 16 tokens: a decode run has one token per sequence. If
  // the run were rounded up to 16 tokens, most of its rows could be unused, and they would take a large share of its time.
  program.ladder = make_ladder(program.bucket, program.name == kGenerateProgram ? 1 : 16,
                               request.model.label_share, request.ranks.row_multiple());
  std::vector<int64_t> scratch_bytes;
  for (const OpPlan& op : program.ops) scratch_bytes.push_back(op.scratch_bytes);
  ProgramBuffers::Lists lists =
      buffers_.of(program.graph, program.bucket, scratch_bytes, request.device.kind);
  program.buffers = std::move(lists.on_device);
  program.host.buffers = std::move(lists.on_host);
  const auto num_positions = static_cast<uint32_t>(program.ops.size());
  program.num_slots = 1;
  program.slot_bytes = 0;
  program.chunk_slots.clear();
  if (program.name == kTrainProgram) {
    const std::vector<int64_t> held =
        micro_batches_held_by_chunks(request.ranks, request.batches.accumulation_steps);
    program.num_slots = *std::ranges::max_element(held);
    for (const int64_t count : held) program.chunk_slots.push_back({.count = count});
  }
  const bool has_chunks = program.chunk_slots.size() > 1;
  if (program.num_slots > 1 || has_chunks) {
    lay_out_slots(program, request);
  } else {
    const Layout layout = place_buffers(program.buffers, num_positions, request, cut_at_);
    program.transient_bytes = layout.bytes;
    program.lower_bound_bytes = layout.lower_bound_bytes;
  }
  if (!has_chunks) program.chunk_slots.clear();
  const Layout host = place_buffers(program.host.buffers, num_positions, request, 0);
  program.host.transient_bytes = host.bytes;
  program.host.lower_bound_bytes = host.lower_bound_bytes;
}

// Places the values that each micro-batch saves for its backward pass in a slot (a part of the arena), because several micro-batches are
// live at the same time. Any slot may belong to the micro-batch that runs, so other values cannot use free bytes within a slot. The lower
// bound of the bytes holds for all layouts: while one micro-batch runs, the saved values of the other micro-batches exist. With several
// chunks of layers, the lower bound holds only for layouts with these slots.
void ProgramPlacer::lay_out_slots(ProgramPlan& program, const PlanRequest& request) {
  const auto num_positions = static_cast<uint32_t>(program.ops.size());
  std::vector<TransientBuffer> together = program.buffers;
  const Layout bound = place_buffers(together, num_positions, request, 0);
  std::vector<TransientBuffer> others, slots;
  for (const TransientBuffer& buffer : program.buffers) {
    const bool is_saved = program.graph.ops()[buffer.first].segment == Segment::kForward &&
                          program.graph.ops()[buffer.last].segment != Segment::kForward;
    const Op& first = program.graph.ops()[buffer.first];
    if (!is_saved) {
      PLIMSOLL_CHECK(
          program.chunk_slots.size() == 1 || run_together(first, program.graph.ops()[buffer.last]),
          "the transient buffer '{}' is used by the passes of two chunks of layers, which must not share it",
          buffer.root == kNoValue ? "scratch" : program.graph.value(buffer.root).name);
      others.push_back(buffer);
      continue;
    }
    ChunkSlots& chunk = program.chunk_slots[static_cast<size_t>(chunk_of(first))];
    slots.push_back(buffer);
    slots.back().offset = chunk.bytes;
    chunk.bytes += buffer.bytes;
    program.slot_bytes += buffer.bytes;
  }
  int64_t end = 0;
  for (ChunkSlots& chunk : program.chunk_slots) {
    chunk.begin = end;
    end += chunk.count * chunk.bytes;
  }
  const auto chunk_at = [&](const TransientBuffer& buffer) {
    return program.chunk_slots[static_cast<size_t>(chunk_of(program.graph.ops()[buffer.first]))];
  };
  for (TransientBuffer& buffer : slots) buffer.offset += chunk_at(buffer).begin;
  const Layout layout = place_buffers(others, num_positions, request, 0);
  const size_t in_slot = slots.size();
  for (int64_t slot = 1; slot < program.num_slots; ++slot) {
    for (size_t i = 0; i < in_slot; ++i) {
      const ChunkSlots chunk = chunk_at(slots[i]);
      if (slot >= chunk.count) continue;
      TransientBuffer copy = slots[i];
      copy.offset += slot * chunk.bytes;
      copy.slot = slot;
      copy.first = 0;
      copy.last = num_positions - 1;
      slots.push_back(copy);
    }
  }
  for (TransientBuffer& buffer : others) buffer.offset += end;
  slots.insert(slots.end(), others.begin(), others.end());
  program.buffers = std::move(slots);
  program.transient_bytes = end + layout.bytes;
  program.lower_bound_bytes = end - program.slot_bytes + bound.lower_bound_bytes;
}

void ProgramPlacer::resolve_offsets(const Plan& plan, int64_t begin, int64_t host_begin,
                                    ProgramPlan& program) const {
  program.offsets.assign(program.graph.values().size(), -1);
  for (TransientBuffer& buffer : program.host.buffers) {
    buffer.offset += host_begin;
    program.offsets[index_of(buffer.root)] = buffer.offset;
  }
  program.slots_begin = begin;
  for (ChunkSlots& chunk : program.chunk_slots) chunk.begin += begin;
  for (TransientBuffer& buffer : program.buffers) {
    buffer.offset += begin;
    if (buffer.slot > 0) continue;
    if (buffer.root != kNoValue) {
      program.offsets[index_of(buffer.root)] = buffer.offset;
    } else {
      program.ops[buffer.op].scratch_offset = buffer.offset;
    }
  }
  for (size_t i = 0; i < program.offsets.size(); ++i) {
    const uint32_t buffer = buffer_of_[roots_[i]];
    program.offsets[i] = buffer == kNone ? program.offsets[roots_[i]] : plan.persistent[buffer].offset;
  }
}

}  // namespace plimsoll
