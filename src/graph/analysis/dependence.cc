#include "graph/analysis/analysis.h"

#include <algorithm>

namespace plimsoll {

std::vector<std::vector<uint32_t>> find_readers(const Graph& graph) {
  std::vector<std::vector<uint32_t>> readers(graph.values().size());
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (ValueId id : graph.ops()[i].inputs) {
      if (id == kNoValue) continue;
      std::vector<uint32_t>& list = readers[index_of(id)];
      if (list.empty() || list.back() != i) list.push_back(static_cast<uint32_t>(i));
    }
  }
  return readers;
}

Dependences find_dependences(const Graph& graph) {
  const auto readers = find_readers(graph);
  Dependences result;
  result.before.resize(graph.ops().size());
  result.after.resize(graph.ops().size());
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    std::vector<uint32_t>& before = result.before[i];
    const auto add = [&](uint32_t op) {
      if (op != i) before.push_back(op);
    };
    for (ValueId id : graph.ops()[i].inputs) {
      if (id != kNoValue && graph.value(id).producer != kNoOp)
        add(static_cast<uint32_t>(graph.value(id).producer));
    }
    for (ValueId id : graph.ops()[i].outputs) {
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      for (uint32_t reader : readers[index_of(older)]) add(reader);
      if (graph.value(older).producer != kNoOp) add(static_cast<uint32_t>(graph.value(older).producer));
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (uint32_t op : before) result.after[op].push_back(static_cast<uint32_t>(i));
  }
  return result;
}

}  // namespace plimsoll
