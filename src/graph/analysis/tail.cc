#include "graph/analysis/tail.h"

namespace plimsoll {

std::vector<Tail> find_tails(const Graph& graph) {
  std::vector<Tail> tails(graph.values().size(), Tail::kNone);
  std::vector<Tail> inputs;
  for (const Op& op : graph.ops()) {
    inputs.clear();
    for (ValueId id : op.inputs) inputs.push_back(id == kNoValue ? Tail::kNone : tails[index_of(id)]);
    const std::vector<Tail> outputs = schema_of(op).tail({graph, op}, inputs);
    PLIMSOLL_CHECK(outputs.size() == op.outputs.size(), "'{}' returns {} tail states for {} outputs",
                   op.def->name(), outputs.size(), op.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) tails[index_of(op.outputs[i])] = outputs[i];
  }
  return tails;
}

}  // namespace plimsoll
