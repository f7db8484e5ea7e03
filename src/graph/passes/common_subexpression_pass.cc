#include <algorithm>
#include <functional>
#include <unordered_map>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

size_t hash_of(const Op& op) {
  size_t hash = std::hash<const OpDef*>()(op.def);
  for (ValueId id : op.inputs) hash = (hash ^ static_cast<size_t>(index_of(id))) * 0x9e3779b97f4a7c15u;
  return hash;
}

bool is_equal(const Op& a, const Op& b) {
  return a.def == b.def && a.inputs == b.inputs && a.attributes == b.attributes;
}

void merge_equal_ops(Graph& graph) {
  std::vector<ValueId> replacement(graph.values().size());
  for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = ValueId{static_cast<uint32_t>(i)};
  // Maps the hash of each op that was kept to its position in `ops`, so that equal ops are found quickly.
  std::unordered_multimap<size_t, size_t> first;
  first.reserve(graph.ops().size());
  std::vector<Op> ops;
  ops.reserve(graph.ops().size());
  for (Op& op : graph.ops()) {
    bool writes = false;
    for (ValueId& id : op.inputs) {
      if (id != kNoValue) id = replacement[index_of(id)];
    }
    for (ValueId id : op.outputs) {
      writes =
          writes || graph.value(id).version_of != kNoValue || graph.value(id).storage == Storage::kOutput;
    }
    if (!writes) {
      const size_t hash = hash_of(op);
      const auto [begin, end] = first.equal_range(hash);
      const auto it =
          std::find_if(begin, end, [&](const auto& entry) { return is_equal(ops[entry.second], op); });
      if (it != end) {
        const ValueIds& outputs = ops[it->second].outputs;
        for (size_t i = 0; i < op.outputs.size(); ++i) {
          replacement[index_of(op.outputs[i])] = outputs[i];
          if (graph.value(op.outputs[i]).is_parameter_gradient)
            graph.value(outputs[i]).is_parameter_gradient = true;
        }
        continue;
      }
      first.emplace(hash, ops.size());
    }
    ops.push_back(std::move(op));
  }
  graph.replace_ops(std::move(ops));
  graph.drop_unused_values();
}

}  // namespace

Pass common_subexpression_pass() {
  return {.name = "common_subexpression",
          .numerics = Numerics::kPreserving,
          .help = "computes equal expressions once",
          .run = merge_equal_ops};
}

}  // namespace plimsoll
