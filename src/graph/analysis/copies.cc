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

std::vector<CopyInFlight> find_copies(const Graph& graph) {
  std::vector<CopyInFlight> copies;
  if (std::ranges::none_of(graph.ops(), [](const Op& op) { return op.def == &copy_op(); })) return copies;
  // For each value, the copies that read it (operand_of) and the copies that write it (brought_by). Several copies
  // can write one value, each of them other elements.
  std::unordered_map<ValueId, std::vector<size_t>> operand_of;
  std::unordered_map<ValueId, std::vector<size_t>> brought_by;
  std::vector<size_t> to_host;  // the copies of this segment to the host
  const auto end_by = [&](size_t copy, uint32_t position) {
    copies[copy].end = std::min(copies[copy].end, position);
  };
  // Ends the copies of the list before the op at this position, except the copies that access other elements than
  // that op. Returns those copies.
  const auto disturb = [&](const std::vector<size_t>& list, uint32_t position) {
    std::vector<size_t> undisturbed;
    for (size_t copy : list) {
      if (are_apart(graph.ops()[copies[copy].op], graph.ops()[position])) {
        undisturbed.push_back(copy);
      } else {
        end_by(copy, position);
      }
    }
    return undisturbed;
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (i > 0 && graph.ops()[i - 1].segment != op.segment) {
      // Ends the copies of the previous segment, unless they ended before.
      for (size_t c = copies.size(); c-- > 0 && graph.ops()[copies[c].op].segment != op.segment;)
        end_by(c, i);
      to_host.clear();
    }
    for (ValueId id : op.inputs) {
      if (const auto it = brought_by.find(id); it != brought_by.end()) disturb(it->second, i);
    }
    for (ValueId id : op.outputs) {
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      // A copy of other elements may still read or write these bytes when they belong to the newer version of the
      // value.
      if (const auto it = operand_of.find(older); it != operand_of.end()) {
        std::vector<size_t> undisturbed = disturb(it->second, i);
        if (!undisturbed.empty()) operand_of[id] = std::move(undisturbed);
      }
      if (const auto it = brought_by.find(older); it != brought_by.end())
        brought_by[id] = disturb(it->second, i);
    }
    const auto ended = static_cast<size_t>(op.attributes.integer_or("ended", 0));
    for (size_t k = 0; k < std::min(ended, to_host.size()); ++k) end_by(to_host[k], i);
    if (op.def != &copy_op()) continue;
    const Space to = graph.value(op.outputs[CopyOp::kTo]).space;
    copies.push_back({.op = i, .end = static_cast<uint32_t>(graph.ops().size()), .to = to});
    if (to == Space::kHost) to_host.push_back(copies.size() - 1);
    for (ValueId id : copied_values(op)) operand_of[id].push_back(copies.size() - 1);
    for (ValueId id : op.outputs) brought_by[id].push_back(copies.size() - 1);
  }
  return copies;
}

}  // namespace plimsoll
