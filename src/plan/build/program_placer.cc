#include "plan/build/program_placer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "graph/analysis/copies.h"
#include "graph/analysis/tail.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

int64_t rounded(int64_t bytes, const PlanRequest& request) {
  const int64_t alignment = arena_alignment(request.device);
  return (bytes + alignment - 1) / alignment * alignment;
}

// Values that no op needs a place for: outputs nobody reads and that their op can do without.
std::vector<bool> find_placeless(const Graph& graph) {
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (ValueId id : op.inputs) {
      if (id != kNoValue) read[index_of(id)] = true;
    }
  }
  std::vector<bool> placeless(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const Value& value = graph.value(op.outputs[i]);
      placeless[index_of(op.outputs[i])] =
          !read[index_of(op.outputs[i])] && value.storage == Storage::kTransient &&
          value.version_of == kNoValue && schema_of(op).is_optional_output(static_cast<int>(i));
    }
  }
  return placeless;
}

Purpose purpose_of(const Graph& graph, const Lifetime& lifetime) {
  const Value& value = graph.value(lifetime.root);
  if (value.is_parameter_gradient) return Purpose::kGradients;
  if (value.producer != kNoOp && graph.op(value.producer).def == &copy_op()) return Purpose::kFunctionality;
  if (value.storage == Storage::kCarried) return Purpose::kFunctionality;
  const Segment born = graph.ops()[lifetime.first].segment;
  const Segment dies = graph.ops()[lifetime.last].segment;
  return born == Segment::kForward && dies != Segment::kForward ? Purpose::kSaved : Purpose::kTemporary;
}

// Offsets of one space's buffers, relative to its transient region, below what hangs from its top.
Layout assign(std::span<TransientBuffer> buffers, std::span<const int64_t> hanging,
              const PlanRequest& request) {
  if (buffers.empty()) return {};
  std::vector<LiveBuffer> live;
  live.reserve(buffers.size());
  for (const TransientBuffer& buffer : buffers) live.push_back({buffer.bytes, buffer.first, buffer.last});
  const int64_t alignment = arena_alignment(request.device);
  Layout layout =
      request.separate_buffers ? separate_offsets(live, alignment) : assign_offsets(live, alignment, hanging);
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].offset = layout.offsets[i];
  return layout;
}

// Carried buffers, each of which is live at the start and at the end of a run, hang from the top of the
// region, each from the one before it: those that are written first hang highest. No two of their places
// meet, and where what was written last is read first, the bytes that they take fall and rise without a hole.
// What lives in one run lies below, the longest lowest, as where nothing is carried.
struct HangingBuffers {
  std::vector<TransientBuffer> buffers = {};  // two of each, for both parts of its life; offsets from the top
  std::vector<int64_t> bytes = {};            // at each position
};

// Takes them out of the list.
HangingBuffers hang_carried(std::vector<TransientBuffer>& buffers, uint32_t num_positions) {
  HangingBuffers hanging;
  const auto is_carried = [](const TransientBuffer& buffer) { return buffer.first > buffer.last; };
  const auto carried = std::stable_partition(buffers.begin(), buffers.end(), std::not_fn(is_carried));
  if (carried == buffers.end()) return hanging;
  std::stable_sort(carried, buffers.end(),
                   [](const TransientBuffer& a, const TransientBuffer& b) { return a.first < b.first; });
  hanging.bytes.resize(num_positions, 0);
  int64_t depth = 0;
  for (auto it = carried; it != buffers.end(); ++it) {
    depth += it->bytes;
    TransientBuffer part = *it;
    part.offset = -depth;
    for (const auto& [first, last] : {std::pair{0u, it->last}, std::pair{it->first, num_positions - 1}}) {
      part.first = first;
      part.last = last;
      hanging.buffers.push_back(part);
      std::fill(hanging.bytes.begin() + first, hanging.bytes.begin() + last + 1, depth);
    }
  }
  buffers.erase(carried, buffers.end());
  return hanging;
}

bool is_read(const Graph& graph, ValueId id) {
  return std::ranges::any_of(
      graph.ops(), [id](const Op& op) { return std::ranges::find(op.inputs, id) != op.inputs.end(); });
}

}  // namespace

ProgramPlacer::ProgramPlacer(Plan& plan, ProgramPlan& program) : kernels_(program.graph) {
  const Graph& graph = program.graph;
  static_cast<void>(find_tails(graph));
  const std::vector<bool> placeless = find_placeless(graph);
  for (Lifetime& lifetime : find_lifetimes(graph)) {
    if (placeless[index_of(lifetime.root)]) continue;
    const Purpose purpose = purpose_of(graph, lifetime);
    const bool is_on_host = graph.value(lifetime.root).space == Space::kHost;
    buffers_.push_back({.lifetime = std::move(lifetime), .purpose = purpose, .is_on_host = is_on_host});
  }
  roots_.reserve(graph.values().size());
  for (uint32_t i = 0; i < graph.values().size(); ++i) {
    roots_.push_back(static_cast<uint32_t>(root_of(graph, ValueId{i})));
  }
  enter_persistent(plan, program);
  program.ops.resize(graph.ops().size());
  for (const CopyInFlight& copy : find_copies(graph)) {
    program.ops[copy.op].copies_to = copy.to;
    program.ops[copy.op].copy_end = copy.end;
    const ValueId from = graph.ops()[copy.op].inputs[0];
    program.ops[copy.op].of_last_run = graph.value(from).storage == Storage::kCarried;
  }
  for (const Op& op : graph.ops()) {
    const bool leaves = std::ranges::any_of(
        op.outputs, [&](ValueId id) { return graph.value(root_of(graph, id)).storage == Storage::kCarried; });
    if (leaves) program.leaves_after = op.segment;
  }
}

// Persistent buffers of both programs in one list; a name is one buffer.
void ProgramPlacer::enter_persistent(Plan& plan, const ProgramPlan& program) {
  const Graph& graph = program.graph;
  buffer_of_.assign(graph.values().size(), kNone);
  for (uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const bool exchanged = value.storage == Storage::kInput || value.storage == Storage::kOutput;
    if (!exchanged && !is_persistent(value.storage)) continue;
    if (value.version_of != kNoValue) continue;
    const auto [it, inserted] = plan.persistent_by_name.emplace(value.name, plan.persistent.size());
    buffer_of_[i] = static_cast<uint32_t>(it->second);
    persistent_.push_back({ValueId{i}, buffer_of_[i]});
    if (inserted) {
      plan.persistent.push_back({.name = value.name,
                                 .storage = value.storage,
                                 .type = value.type,
                                 .module = graph.module_name(value.module),
                                 .space = value.space});
      continue;
    }
    const PersistentBuffer& buffer = plan.persistent[it->second];
    PLIMSOLL_CHECK(buffer.storage == value.storage && buffer.type == value.type,
                   "'{}' is {} {} in one program and {} {} in another", value.name,
                   storage_name(buffer.storage), type_text(buffer.type), storage_name(value.storage),
                   type_text(value.type));
    if (buffer.space == value.space) continue;
    // What the host keeps may be declared elsewhere, but nothing reads it there.
    PLIMSOLL_CHECK(buffer.space == Space::kHost && !is_read(graph, ValueId{i}),
                   "'{}' lies in the host's memory in one program and in the device's in another",
                   value.name);
  }
}

void ProgramPlacer::grow_persistent(Plan& plan, const ProgramPlan& program) const {
  for (const Persistent& each : persistent_) {
    const int64_t bytes = program.graph.value(each.value).bytes(program.bucket);
    int64_t& most = plan.persistent[each.buffer].bytes;
    most = std::max(most, rounded(std::max<int64_t>(bytes, 1), plan.request));
  }
}

void ProgramPlacer::lay_out(ProgramPlan& program, const PlanRequest& request) {
  kernels_.choose(program, request);
  program.ladder = make_ladder(program.bucket);
  program.buffers.clear();
  program.host_buffers.clear();
  for (const Buffer& buffer : buffers_) {
    const LiveRange range = live_range(program.graph, buffer.lifetime, program.bucket);
    (buffer.is_on_host ? program.host_buffers : program.buffers)
        .push_back({.root = range.root,
                    .purpose = buffer.purpose,
                    .bytes = rounded(range.bytes, request),
                    .first = range.first,
                    .last = range.last});
  }
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].scratch_bytes == 0) continue;
    program.buffers.push_back(
        {.op = i, .bytes = rounded(program.ops[i].scratch_bytes, request), .first = i, .last = i});
  }
  HangingBuffers hanging = hang_carried(program.buffers, static_cast<uint32_t>(program.ops.size()));
  const Layout layout = assign(program.buffers, hanging.bytes, request);
  for (TransientBuffer& buffer : hanging.buffers) buffer.offset += layout.bytes;
  program.buffers.insert(program.buffers.end(), hanging.buffers.begin(), hanging.buffers.end());
  program.transient_bytes = layout.bytes;
  program.lower_bound_bytes = layout.lower_bound_bytes;
  const Layout host = assign(program.host_buffers, {}, request);
  program.host_transient_bytes = host.bytes;
  program.host_lower_bound_bytes = host.lower_bound_bytes;
}

void ProgramPlacer::resolve_offsets(const Plan& plan, int64_t begin, int64_t host_begin,
                                    ProgramPlan& program) const {
  program.offsets.assign(program.graph.values().size(), -1);
  for (TransientBuffer& buffer : program.host_buffers) {
    buffer.offset += host_begin;
    program.offsets[index_of(buffer.root)] = buffer.offset;
  }
  for (TransientBuffer& buffer : program.buffers) {
    buffer.offset += begin;
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
