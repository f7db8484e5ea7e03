#include "graph/analysis/copies.h"

#include <algorithm>
#include <unordered_map>

#include "graph/ops/ops.h"

namespace plimsoll {

std::vector<CopyInFlight> find_copies(const Graph& graph) {
  std::vector<CopyInFlight> copies;
  if (std::ranges::none_of(graph.ops(), [](const Op& op) { return op.def == &copy_op(); })) return copies;
  // The copies that hold a value, by the value: as an operand or as what they bring.
  std::unordered_map<ValueId, std::vector<size_t>> operand_of;
  std::unordered_map<ValueId, size_t> brought_by;
  const auto end_by = [&](size_t copy, uint32_t position) {
    copies[copy].end = std::min(copies[copy].end, position);
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    for (ValueId id : op.inputs) {
      if (const auto it = brought_by.find(id); it != brought_by.end()) end_by(it->second, i);
    }
    for (ValueId id : op.outputs) {
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      if (const auto it = operand_of.find(older); it != operand_of.end()) {
        for (size_t copy : it->second) end_by(copy, i);
      }
      if (const auto it = brought_by.find(older); it != brought_by.end()) end_by(it->second, i);
    }
    for (size_t c = copies.size(); c-- > 0;) {
      // The segment of the copy is over here, unless it ended before.
      if (graph.ops()[copies[c].op].segment == op.segment) break;
      end_by(c, i);
    }
    if (op.def != &copy_op()) continue;
    copies.push_back(
        {.op = i, .end = static_cast<uint32_t>(graph.ops().size()), .to = graph.value(op.outputs[0]).space});
    const auto count = static_cast<size_t>(op.attributes.integer("count"));
    for (size_t k = 0; k < count; ++k) operand_of[op.inputs[k]].push_back(copies.size() - 1);
    for (ValueId id : op.outputs) brought_by[id] = copies.size() - 1;
  }
  return copies;
}

}  // namespace plimsoll
