#include "graph/analysis/analysis.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace plimsoll {
namespace {

// Returns true if each pair of values has one type and one division among ranks, or is absent on both sides.
bool same_types(const Graph& graph, const ValueIds& a, const ValueIds& b) {
  return std::ranges::equal(a, b, [&](ValueId left, ValueId right) {
    if (left == kNoValue || right == kNoValue) return left == right;
    return graph.value(left).type == graph.value(right).type &&
           graph.value(left).divided == graph.value(right).divided;
  });
}

bool is_same_kind(const Graph& graph, const Op& a, const Op& b) {
  return a.def == b.def && same_types(graph, a.inputs, b.inputs) && same_types(graph, a.outputs, b.outputs) &&
         a.attributes == b.attributes;
}

size_t hash_of(const Graph& graph, const Op& op) {
  size_t hash = std::hash<const OpDef*>()(op.def);
  const auto mix = [&](int64_t x) { hash = (hash ^ static_cast<size_t>(x)) * 0x9e3779b97f4a7c15u; };
  for (const ValueIds* ids : {&op.inputs, &op.outputs}) {
    for (ValueId id : *ids) {
      if (id == kNoValue) continue;
      const ValueType& type = graph.value(id).type;
      mix(static_cast<int64_t>(type.dtype));
      for (const Dim& dim : type.shape.dims()) mix(dim.factor + dim.offset);
    }
  }
  return hash;
}

}  // namespace

OpKinds find_op_kinds(const Graph& graph) {
  OpKinds kinds;
  kinds.of_op.reserve(graph.ops().size());
  std::unordered_multimap<size_t, uint32_t> by_hash;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    const size_t hash = hash_of(graph, op);
    const auto [begin, end] = by_hash.equal_range(hash);
    const auto it = std::find_if(begin, end, [&](const auto& entry) {
      return is_same_kind(graph, op, graph.ops()[kinds.first_op[entry.second]]);
    });
    if (it != end) {
      kinds.of_op.push_back(it->second);
      continue;
    }
    const auto kind = static_cast<uint32_t>(kinds.first_op.size());
    by_hash.emplace(hash, kind);
    kinds.of_op.push_back(kind);
    kinds.first_op.push_back(i);
  }
  return kinds;
}

}  // namespace plimsoll
