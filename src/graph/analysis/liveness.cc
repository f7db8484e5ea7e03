#include "graph/analysis/liveness.h"

#include <algorithm>
#include <limits>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"

namespace plimsoll {

ValueId root_of(const Graph& graph, ValueId id) {
  while (graph.value(id).version_of != kNoValue) id = graph.value(id).version_of;
  return id;
}

namespace {

// Returns true if the op is a copy that overwrites the bytes of this input without reading them.
bool is_place(const Graph& graph, const Op& op, size_t input) {
  if (op.def != &copy_op() || input < copied_values(op).size()) return false;
  return std::ranges::any_of(
      op.outputs, [&](ValueId output) { return graph.value(output).version_of == op.inputs[input]; });
}

// A deferred value is left by one run for the next. Returns true if this version of it contains only data of
// the current run: if an op has written this or an older version without reading the data of the previous run.
bool is_new(const Graph& graph, ValueId id) {
  for (; graph.value(id).version_of != kNoValue; id = graph.value(id).version_of) {
    const ValueId older = graph.value(id).version_of;
    const Op& producer = graph.op(graph.value(id).producer);
    bool is_read = false;
    for (size_t i = 0; i < producer.inputs.size(); ++i)
      is_read = is_read || (producer.inputs[i] == older && !is_place(graph, producer, i));
    if (!is_read) return true;
  }
  return false;
}

}  // namespace

std::vector<Lifetime> find_lifetimes(const Graph& graph) {
  return find_lifetimes(graph, find_queued_ops(graph));
}

std::vector<Lifetime> find_lifetimes(const Graph& graph, std::span<const QueuedOp> all_queued) {
  constexpr uint32_t kUnseen = std::numeric_limits<uint32_t>::max();
  // marks values whose liveness is not analysed because they are persistent, inputs or outputs
  constexpr uint32_t kUntracked = kUnseen - 1;
  const std::vector<Value>& values = graph.values();
  bool has_deferred = false;
  // For each value: the index in `lifetimes` of its buffer. Only the entry of the oldest version of a value is used.
  std::vector<uint32_t> lifetime_of(values.size());
  std::vector<ValueId> roots;
  roots.reserve(values.size());
  for (uint32_t i = 0; i < values.size(); ++i) {
    const bool is_deferred = values[i].storage == Storage::kDeferred;
    has_deferred = has_deferred || is_deferred;
    lifetime_of[i] = is_deferred || values[i].storage == Storage::kTransient ? kUnseen : kUntracked;
    roots.push_back(values[i].version_of == kNoValue ? ValueId{i} : root_of(graph, ValueId{i}));
  }
  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(graph.ops().size());
  const auto touch = [&](ValueId id, uint32_t position) {
    const ValueId root = roots[index_of(id)];
    uint32_t& index = lifetime_of[index_of(root)];
    if (index == kUntracked) return;
    const bool is_deferred = has_deferred && graph.value(root).storage == Storage::kDeferred;
    if (index == kUnseen) {
      index = static_cast<uint32_t>(lifetimes.size());
      lifetimes.push_back({.root = root, .first = is_deferred ? kUnseen : position, .last = 0});
    }
    Lifetime& lifetime = lifetimes[index];
    if (is_deferred && is_new(graph, id)) {
      lifetime.first = std::min(lifetime.first, position);
    } else {
      lifetime.last = std::max(lifetime.last, position);
    }
    const bool is_counted = std::ranges::any_of(lifetime.sizes, [&](ValueId other) {
      return other == id || graph.value(other).type == graph.value(id).type;
    });
    if (!is_counted) lifetime.sizes.push_back(id);
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const ValueId id = op.inputs[k];
      if (id == kNoValue) continue;
      // A copy that overwrites a deferred value does not read the data that the previous run left in it.
      const bool is_deferred = has_deferred && graph.value(roots[index_of(id)]).storage == Storage::kDeferred;
      if (is_deferred && is_place(graph, op, k)) continue;
      touch(id, i);
    }
    for (ValueId id : op.outputs) touch(id, i);
  }
  for (const QueuedOp& queued : all_queued) {
    const Op& op = graph.ops()[queued.op];
    for (ValueId id : values_in_use(op)) {
      if (id != kNoValue) touch(id, queued.end - 1);
    }
    for (ValueId id : op.outputs) touch(id, queued.end - 1);
  }
  return lifetimes;
}

LiveRange live_range(const Graph& graph, const Lifetime& lifetime, const Bucket& bucket) {
  LiveRange range{.root = lifetime.root, .bytes = 0, .first = lifetime.first, .last = lifetime.last};
  for (ValueId id : lifetime.sizes) range.bytes = std::max(range.bytes, graph.value(id).bytes(bucket));
  return range;
}

std::vector<LiveRange> find_live_ranges(const Graph& graph, const Bucket& bucket) {
  const std::vector<Lifetime> lifetimes = find_lifetimes(graph);
  std::vector<LiveRange> ranges;
  ranges.reserve(lifetimes.size());
  for (const Lifetime& lifetime : lifetimes) ranges.push_back(live_range(graph, lifetime, bucket));
  return ranges;
}

std::vector<int64_t> live_bytes(const std::vector<LiveRange>& ranges, size_t num_positions,
                                int64_t alignment) {
  std::vector<int64_t> change(num_positions + 1, 0);
  for (const LiveRange& range : ranges) {
    const int64_t bytes = (range.bytes + alignment - 1) / alignment * alignment;
    change[range.first] += bytes;
    change[range.last + 1] -= bytes;
    // A deferred buffer is also live at the beginning of the run: it contains data of the previous run up to the last op that reads this
    // data.
    if (range.first > range.last) change[0] += bytes;
  }
  int64_t sum = 0;
  for (int64_t& entry : change) {
    sum += entry;
    entry = sum;
  }
  change.resize(num_positions);
  return change;
}

int64_t peak_bytes(const Graph& graph, const Bucket& bucket) {
  constexpr int64_t kAlignment = 64;
  int64_t peak = 0;
  for (const int64_t bytes : live_bytes(find_live_ranges(graph, bucket), graph.ops().size(), kAlignment))
    peak = std::max(peak, bytes);
  return peak;
}

void reorder_if_peak_is_below(Graph& graph, std::span<const uint32_t> order, const Bucket& bucket,
                              int64_t limit) {
  graph.reorder_ops(order);
  if (peak_bytes(graph, bucket) < limit) return;
  std::vector<uint32_t> inverse(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
  graph.reorder_ops(inverse);
}

std::vector<Tail> find_tails(const Graph& graph) {
  std::vector<Tail> tails(graph.values().size(), Tail::kNone);
  std::vector<Tail> inputs;
  for (const Op& op : graph.ops()) {
    inputs.clear();
    for (ValueId id : op.inputs) inputs.push_back(id == kNoValue ? Tail::kNone : tails[index_of(id)]);
    const std::vector<Tail> outputs = schema_of(op).tail({graph, op}, inputs);
    PLIMSOLL_CHECK(
        outputs.size() == op.outputs.size(),
        "the schema of op '{}' must state the content of the rows after the last token for every output, but "
        "returns {} entries for {} outputs",
        op.def->name(), outputs.size(), op.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) tails[index_of(op.outputs[i])] = outputs[i];
  }
  return tails;
}

}  // namespace plimsoll
