#include "graph/analysis/analysis.h"

#include <algorithm>
#include <limits>

#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

// Returns true if both ops copy slices of one parameter and the slices have no element in common.
bool are_apart(const Op& a, const Op& b) {
  if (a.def != &copy_op() || b.def != &copy_op()) return false;
  const std::optional<Slice> one = slice_of(a.attributes), other = slice_of(b.attributes);
  return one && other && one->of == other->of &&
         (one->first + one->elements <= other->first || other->first + other->elements <= one->first);
}

// A list of numbers for each value. Most lists are empty. All lists are linked lists in one array, so that they need few allocations.
class ListPerValue {
 public:
  explicit ListPerValue(size_t num_values) : first_(num_values, kEnd) {}

  void add(ValueId id, uint32_t number) {
    entries_.push_back({number, first_[index_of(id)]});
    first_[index_of(id)] = static_cast<uint32_t>(entries_.size() - 1);
  }
  bool is_empty(ValueId id) const { return first_[index_of(id)] == kEnd; }
  void clear(ValueId id) { first_[index_of(id)] = kEnd; }
  // Calls visit(number) for each number of a list, from the last added to the first. `visit` may add numbers to other lists.
  template <typename Visit>
  void for_each(ValueId id, const Visit& visit) const {
    for (uint32_t at = first_[index_of(id)]; at != kEnd;) {
      const Entry entry = entries_[at];
      visit(entry.number);
      at = entry.next;
    }
  }

 private:
  static constexpr uint32_t kEnd = std::numeric_limits<uint32_t>::max();
  struct Entry {
    uint32_t number = 0;
    uint32_t next = kEnd;
  };
  // For each value: the index in entries_ of the last entry that was added to its list, or kEnd if the list is empty.
  std::vector<uint32_t> first_;
  std::vector<Entry> entries_;
};

}  // namespace

bool reads_disk(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && graph.value(op.inputs[CopyOp::kFrom]).space == Space::kDisk;
}

bool writes_disk(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && graph.value(op.outputs[CopyOp::kTo]).space == Space::kDisk;
}

std::span<const ValueId> values_in_use(const Op& op) {
  return op.def == &copy_op() ? copied_values(op) : std::span<const ValueId>(op.inputs);
}

std::vector<QueuedOp> find_queued_ops(const Graph& graph) {
  std::vector<QueuedOp> queued;
  // For each value: the queued ops that read it and those that write it. A queued op is a copy or a collective
  // operation and runs at the same time as later ops. Several copies can write different elements of one value.
  ListPerValue read_by(graph.values().size());
  ListPerValue written_by(graph.values().size());
  std::vector<uint32_t> to_host;  // the copies to the host in the current segment
  const auto end_by = [&](uint32_t i, uint32_t position) {
    queued[i].end = std::min(queued[i].end, position);
  };
  // Records that the op at `position` must wait for the queued ops in the list of `older`, except for
  // copies of elements that the op does not access. If the op writes a new version `newer` of the
  // value, these copies are moved to the list of `newer`, because a later op may have to wait for them.
  const auto disturb = [&](ListPerValue& lists, ValueId older, uint32_t position, ValueId newer) {
    if (newer != kNoValue) lists.clear(newer);
    lists.for_each(older, [&](uint32_t i) {
      if (!are_apart(graph.ops()[queued[i].op], graph.ops()[position])) {
        end_by(i, position);
      } else if (newer != kNoValue) {
        lists.add(newer, i);
      }
    });
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (i > 0 && !run_together(graph.ops()[i - 1], op)) {
      // This op begins a new segment (forward pass, backward pass or update), or the pass of another chunk of layers. All queued ops of the
      // previous segment or pass must have ended before it starts.
      for (auto k = static_cast<uint32_t>(queued.size());
           k-- > 0 && !run_together(graph.ops()[queued[k].op], op);)
        end_by(k, i);
      to_host.clear();
    }
    for (ValueId id : op.inputs) {
      if (id != kNoValue && !written_by.is_empty(id)) disturb(written_by, id, i, kNoValue);
    }
    for (ValueId id : op.outputs) {
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      // The op writes a newer version of the value into the same bytes. It need not wait for copy ops that read or write other elements
      // of the value; from now on, these copy ops count as readers or writers of the newer version.
      if (!read_by.is_empty(older)) disturb(read_by, older, i, id);
      if (!written_by.is_empty(older)) disturb(written_by, older, i, id);
    }
    if (!to_host.empty()) {
      const auto ended = static_cast<size_t>(op.attributes.integer_or("ended", 0));
      for (size_t k = 0; k < std::min(ended, to_host.size()); ++k) end_by(to_host[k], i);
    }
    const Queue queue = schema_of(op).queue({graph, op});
    if (queue == Queue::kCompute) continue;
    const auto entry = static_cast<uint32_t>(queued.size());
    queued.push_back({.op = i, .end = static_cast<uint32_t>(graph.ops().size()), .queue = queue});
    if (queue == Queue::kToHost) to_host.push_back(entry);
    for (ValueId id : values_in_use(op)) {
      if (id != kNoValue) read_by.add(id, entry);
    }
    for (ValueId id : op.outputs) written_by.add(id, entry);
  }
  return queued;
}

}  // namespace plimsoll
