#include "graph/analysis/analysis.h"

#include <algorithm>
#include <unordered_map>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

// Returns true for two copies of parts of a value that have no element in common.
bool are_apart(const Op& a, const Op& b) {
  if (a.def != &copy_op() || b.def != &copy_op()) return false;
  const std::optional<Slice> one = slice_of(a.attributes), other = slice_of(b.attributes);
  return one && other && one->of == other->of &&
         (one->first + one->elements <= other->first || other->first + other->elements <= one->first);
}

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
  const auto queue_of = [&](const Op& op) { return schema_of(op).queue({graph, op}); };
  // For each value, the queued ops that read it (read_by) and those that write it (written_by). Several copies can write one
  // value, each of them other elements.
  std::unordered_map<ValueId, std::vector<size_t>> read_by;
  std::unordered_map<ValueId, std::vector<size_t>> written_by;
  std::vector<size_t> to_host;  // the copies of this segment to the host
  const auto end_by = [&](size_t i, uint32_t position) { queued[i].end = std::min(queued[i].end, position); };
  // Ends the queued ops of the list before the op at this position, except the copies that access other elements than that op.
  // Returns those copies.
  const auto disturb = [&](const std::vector<size_t>& list, uint32_t position) {
    std::vector<size_t> undisturbed;
    for (size_t i : list) {
      if (are_apart(graph.ops()[queued[i].op], graph.ops()[position])) {
        undisturbed.push_back(i);
      } else {
        end_by(i, position);
      }
    }
    return undisturbed;
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (i > 0 && graph.ops()[i - 1].segment != op.segment) {
      // Ends the queued ops of the previous segment, unless they ended before.
      for (size_t k = queued.size(); k-- > 0 && graph.ops()[queued[k].op].segment != op.segment;)
        end_by(k, i);
      to_host.clear();
    }
    for (ValueId id : op.inputs) {
      if (const auto it = written_by.find(id); it != written_by.end()) disturb(it->second, i);
    }
    for (ValueId id : op.outputs) {
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      // A copy of other elements may still read or write these bytes when they belong to the newer version of the
      // value.
      if (const auto it = read_by.find(older); it != read_by.end()) {
        std::vector<size_t> undisturbed = disturb(it->second, i);
        if (!undisturbed.empty()) read_by[id] = std::move(undisturbed);
      }
      if (const auto it = written_by.find(older); it != written_by.end())
        written_by[id] = disturb(it->second, i);
    }
    const auto ended = static_cast<size_t>(op.attributes.integer_or("ended", 0));
    for (size_t k = 0; k < std::min(ended, to_host.size()); ++k) end_by(to_host[k], i);
    const Queue queue = queue_of(op);
    if (queue == Queue::kCompute) continue;
    queued.push_back({.op = i, .end = static_cast<uint32_t>(graph.ops().size()), .queue = queue});
    if (queue == Queue::kToHost) to_host.push_back(queued.size() - 1);
    for (ValueId id : values_in_use(op)) {
      if (id != kNoValue) read_by[id].push_back(queued.size() - 1);
    }
    for (ValueId id : op.outputs) written_by[id].push_back(queued.size() - 1);
  }
  return queued;
}

}  // namespace plimsoll
