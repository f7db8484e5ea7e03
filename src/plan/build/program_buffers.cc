#include "plan/build/program_buffers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

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

// Below what hangs from the top.
Layout assign(std::span<TransientBuffer> buffers, std::span<const int64_t> hanging,
              const PlanRequest& request, int64_t enough_bytes) {
  if (buffers.empty()) return {};
  std::vector<LiveBuffer> live;
  live.reserve(buffers.size());
  for (const TransientBuffer& buffer : buffers) live.push_back({buffer.bytes, buffer.first, buffer.last});
  const int64_t alignment = arena_alignment(request.device);
  Layout layout = request.separate_buffers ? separate_offsets(live, alignment)
                                           : assign_offsets(live, alignment, hanging, enough_bytes);
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

}  // namespace

ProgramBuffers::ProgramBuffers(const Graph& graph) {
  const std::vector<bool> placeless = find_placeless(graph);
  for (Lifetime& lifetime : find_lifetimes(graph)) {
    if (placeless[index_of(lifetime.root)]) continue;
    const Purpose purpose = purpose_of(graph, lifetime);
    const bool is_on_host = graph.value(lifetime.root).space == Space::kHost;
    buffers_.push_back({.lifetime = std::move(lifetime), .purpose = purpose, .is_on_host = is_on_host});
  }
}

ProgramBuffers::Lists ProgramBuffers::of(const Graph& graph, const Bucket& bucket,
                                         std::span<const int64_t> scratch_bytes, KernelDevice device) const {
  Lists lists;
  for (const Buffer& buffer : buffers_) {
    const LiveRange range = live_range(graph, buffer.lifetime, bucket);
    (buffer.is_on_host ? lists.on_host : lists.on_device)
        .push_back({.root = range.root,
                    .purpose = buffer.purpose,
                    .bytes = bytes_in_arena(range.bytes, device),
                    .first = range.first,
                    .last = range.last});
  }
  for (uint32_t i = 0; i < scratch_bytes.size(); ++i) {
    if (scratch_bytes[i] == 0) continue;
    lists.on_device.push_back(
        {.op = i, .bytes = bytes_in_arena(scratch_bytes[i], device), .first = i, .last = i});
  }
  return lists;
}

Layout place_buffers(std::vector<TransientBuffer>& buffers, uint32_t num_positions,
                     const PlanRequest& request, int64_t enough_bytes) {
  HangingBuffers hanging = hang_carried(buffers, num_positions);
  Layout layout = assign(buffers, hanging.bytes, request, enough_bytes);
  for (TransientBuffer& buffer : hanging.buffers) buffer.offset += layout.bytes;
  buffers.insert(buffers.end(), hanging.buffers.begin(), hanging.buffers.end());
  return layout;
}

}  // namespace plimsoll
