#include "plan/compile/program_buffers.h"

#include <algorithm>
#include <utility>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Finds values that need no memory: outputs that no op reads and that the kernel of their op may leave out.
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
          value.version_of == kNoValue && schema_of(op).has_optional_memory({graph, op}, static_cast<int>(i));
    }
  }
  return placeless;
}

Purpose purpose_of(const Graph& graph, const Lifetime& lifetime) {
  const Value& value = graph.value(lifetime.root);
  if (value.is_parameter_gradient) return Purpose::kGradients;
  const OpDef* producer = value.producer != kNoOp ? graph.op(value.producer).def : nullptr;
  if (producer == &copy_op() || producer == &all_gather_op()) return Purpose::kFunctionality;
  if (value.storage == Storage::kDeferred) return Purpose::kFunctionality;
  const Segment born = graph.ops()[lifetime.first].segment;
  const Segment dies = graph.ops()[lifetime.last].segment;
  return born == Segment::kForward && dies != Segment::kForward ? Purpose::kSaved : Purpose::kTemporary;
}

// Converts positions in a program to positions that are counted from a position, the cut. A program runs again and again, so its positions
// form a cycle. The cut is where the cycle starts for the layout: the positions from the cut on come first, and those before the cut
// follow.
class Cut {
 public:
  Cut(uint32_t at, uint32_t num_positions) : at_(at), num_positions_(num_positions) {}
  uint32_t operator()(uint32_t position) const {
    return position >= at_ ? position - at_ : position + num_positions_ - at_;
  }

 private:
  uint32_t at_;
  uint32_t num_positions_;
};

// Places the buffers that are live across the cut (before and after it) at the top of the region, as a stack that grows downwards, in the
// order in which they are written. They do not overlap. If the value that was written last is read first, the stack grows and shrinks
// without gaps. Sets the offsets of these buffers relative to the top, and returns the height of the stack at each position, counted from
// the cut.
std::vector<int64_t> hang(std::span<TransientBuffer*> buffers, uint32_t num_positions, const Cut& cut) {
  std::vector<int64_t> hanging;
  if (buffers.empty()) return hanging;
  std::ranges::stable_sort(buffers, {}, [&](const TransientBuffer* buffer) { return cut(buffer->first); });
  hanging.resize(num_positions, 0);
  int64_t depth = 0;
  for (TransientBuffer* buffer : buffers) {
    depth += buffer->bytes;
    buffer->offset = -depth;
    std::fill(hanging.begin(), hanging.begin() + cut(buffer->last) + 1, depth);
    std::fill(hanging.begin() + cut(buffer->first), hanging.end(), depth);
  }
  return hanging;
}

// Places the buffers that hang() does not place, which are live only before or only after the cut, below the stack of the buffers that
// hang() places. `hanging`: the height of this stack at each position.
Layout assign(std::span<TransientBuffer*> buffers, std::span<const int64_t> hanging, const Cut& cut,
              const PlanRequest& request, int64_t enough_bytes) {
  if (buffers.empty()) return {};
  std::vector<LiveBuffer> live;
  live.reserve(buffers.size());
  for (const TransientBuffer* buffer : buffers)
    live.push_back({buffer->bytes, cut(buffer->first), cut(buffer->last)});
  const int64_t alignment = arena_alignment(request.device.kind);
  Layout layout = request.separate_buffers ? separate_offsets(live, alignment)
                                           : assign_offsets(live, alignment, hanging, enough_bytes);
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i]->offset = layout.offsets[i];
  return layout;
}

// Replaces each buffer that is live at the end of one run of the program and at the start of the next run by two buffers, one for each of
// these intervals.
void part_deferred(std::vector<TransientBuffer>& buffers, uint32_t num_positions) {
  const size_t n = buffers.size();
  for (size_t i = 0; i < n; ++i) {
    if (buffers[i].first <= buffers[i].last) continue;
    TransientBuffer start = buffers[i];
    start.first = 0;
    buffers[i].last = num_positions - 1;
    buffers.push_back(start);
  }
}

}  // namespace

ProgramBuffers::ProgramBuffers(const Graph& graph) : queued_(find_queued_ops(graph)) {
  const std::vector<bool> placeless = find_placeless(graph);
  for (Lifetime& lifetime : find_lifetimes(graph, queued_)) {
    if (placeless[index_of(lifetime.root)]) continue;
    const Purpose purpose = purpose_of(graph, lifetime);
    const bool is_on_host = graph.value(lifetime.root).space == Space::kHost;
    PLIMSOLL_CHECK(graph.value(lifetime.root).space != Space::kDisk,
                   "only persistent values can be stored on a disk, but '{}' is transient",
                   graph.value(lifetime.root).name);
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
  // An op on a queue for copies or communication runs at the same time as later ops, so its scratch memory stays live until it ends.
  auto queued = queued_.begin();
  for (uint32_t i = 0; i < scratch_bytes.size(); ++i) {
    TransientBuffer scratch{.op = i, .first = i, .last = i};
    if (queued != queued_.end() && queued->op == i) {
      if (queued->queue == Queue::kCommunication) scratch.purpose = Purpose::kFunctionality;
      scratch.last = queued->end - 1;
      ++queued;
    }
    if (scratch_bytes[i] == 0) continue;
    scratch.bytes = bytes_in_arena(scratch_bytes[i], device);
    lists.on_device.push_back(scratch);
  }
  return lists;
}

Layout place_buffers(std::vector<TransientBuffer>& buffers, uint32_t num_positions,
                     const PlanRequest& request, uint32_t cut_at, int64_t enough_bytes) {
  const Cut cut(cut_at, num_positions);
  std::vector<TransientBuffer*> list;
  list.reserve(buffers.size());
  for (TransientBuffer& buffer : buffers) list.push_back(&buffer);
  const auto crossing = std::stable_partition(list.begin(), list.end(), [&](const TransientBuffer* buffer) {
    return cut(buffer->first) <= cut(buffer->last);
  });
  const std::vector<int64_t> hanging = hang({crossing, list.end()}, num_positions, cut);
  Layout layout = assign({list.begin(), crossing}, hanging, cut, request, enough_bytes);
  for (auto it = crossing; it != list.end(); ++it) (*it)->offset += layout.bytes;
  part_deferred(buffers, num_positions);
  return layout;
}

uint32_t layout_cut(const Graph& graph) {
  const bool leaves_gradients = std::ranges::any_of(graph.values(), [](const Value& value) {
    return value.storage == Storage::kDeferred && value.is_parameter_gradient;
  });
  if (!leaves_gradients) return 0;
  const auto behind =
      std::ranges::find_if(graph.ops(), [](const Op& op) { return op.segment != Segment::kForward; });
  return static_cast<uint32_t>(behind - graph.ops().begin());
}

}  // namespace plimsoll
