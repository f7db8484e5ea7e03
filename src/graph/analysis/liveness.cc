#include "graph/analysis/liveness.h"

#include <algorithm>

#include "graph/analysis/copies.h"

namespace plimsoll {

ValueId root_of(const Graph& graph, ValueId id) {
  while (graph.value(id).version_of != kNoValue) id = graph.value(id).version_of;
  return id;
}

std::vector<LiveRange> find_live_ranges(const Graph& graph, const Bucket& bucket) {
  std::vector<LiveRange> by_value(graph.values().size());
  std::vector<bool> seen(graph.values().size(), false);
  std::vector<uint32_t> order;
  const auto touch = [&](ValueId id, uint32_t position) {
    const ValueId root = root_of(graph, id);
    if (graph.value(root).storage != Storage::kTransient) return;
    LiveRange& range = by_value[index_of(root)];
    if (!seen[index_of(root)]) {
      seen[index_of(root)] = true;
      range = {.root = root, .bytes = 0, .first = position, .last = position};
      order.push_back(static_cast<uint32_t>(root));
    }
    range.bytes = std::max(range.bytes, graph.value(id).bytes(bucket));
    range.last = std::max(range.last, position);
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    for (ValueId id : graph.ops()[i].inputs) {
      if (id != kNoValue) touch(id, i);
    }
    for (ValueId id : graph.ops()[i].outputs) touch(id, i);
  }
  for (const CopyInFlight& copy : find_copies(graph)) {
    const Op& op = graph.ops()[copy.op];
    const auto count = static_cast<std::ptrdiff_t>(op.attributes.integer("count"));
    for (auto id = op.inputs.begin(); id != op.inputs.begin() + count; ++id) touch(*id, copy.end - 1);
    for (ValueId id : op.outputs) touch(id, copy.end - 1);
  }
  std::vector<LiveRange> ranges;
  ranges.reserve(order.size());
  for (uint32_t value : order) ranges.push_back(by_value[value]);
  return ranges;
}

std::vector<int64_t> live_bytes(const std::vector<LiveRange>& ranges, size_t num_positions,
                                int64_t alignment) {
  std::vector<int64_t> change(num_positions + 1, 0);
  for (const LiveRange& range : ranges) {
    const int64_t bytes = (range.bytes + alignment - 1) / alignment * alignment;
    change[range.first] += bytes;
    change[range.last + 1] -= bytes;
  }
  int64_t sum = 0;
  for (int64_t& entry : change) {
    sum += entry;
    entry = sum;
  }
  change.resize(num_positions);
  return change;
}

}  // namespace plimsoll
