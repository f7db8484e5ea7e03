#include "graph/analysis/analysis.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

namespace plimsoll {
namespace {

size_t mixed(size_t hash, int64_t number) {
  return (hash ^ static_cast<size_t>(number)) * 0x9e3779b97f4a7c15u;
}

bool is_same_type(const Value& a, const Value& b) {
  return a.type == b.type && a.divided == b.divided;
}

size_t hash_of_type(const ValueType& type) {
  size_t hash = mixed(0, static_cast<int64_t>(type.dtype));
  for (const Dim& dim : type.shape.dims()) {
    hash = mixed(hash, dim.factor + (static_cast<int64_t>(dim.symbol) << 32) + (int64_t{dim.divisor} << 40));
    hash = mixed(hash, dim.offset);
  }
  return hash;
}

// Returns a number for each value of the graph; two values have the same number if they have the same type and are divided among the ranks
// in the same way.
std::vector<uint32_t> number_types(const Graph& graph) {
  const std::vector<Value>& values = graph.values();
  std::vector<uint32_t> numbers;
  numbers.reserve(values.size());
  // A hash table with open addressing that contains the first value of each type. Its size is a power of two, and at least half of its
  // slots are free.
  constexpr uint32_t kFree = 0;
  std::vector<uint32_t> first(std::bit_ceil(2 * values.size() + 2),
                              kFree);  // index of the value plus 1, or kFree
  const size_t mask = first.size() - 1;
  for (const Value& value : values) {
    const size_t hash = hash_of_type(value.type);
    size_t at = (hash ^ hash >> 32) & mask;
    while (first[at] != kFree && !is_same_type(values[first[at] - 1], value)) at = (at + 1) & mask;
    if (first[at] == kFree) first[at] = static_cast<uint32_t>(numbers.size() + 1);
    numbers.push_back(first[at]);
  }
  return numbers;
}

// Compares and hashes ops by their definition, their attributes and the types of their operands.
class KindOfOp {
 public:
  explicit KindOfOp(const Graph& graph) : types_(number_types(graph)) {}

  bool is_same(const Op& a, const Op& b) const {
    const auto is_same_operand = [&](ValueId left, ValueId right) { return type_of(left) == type_of(right); };
    return a.def == b.def && std::ranges::equal(a.inputs, b.inputs, is_same_operand) &&
           std::ranges::equal(a.outputs, b.outputs, is_same_operand) && a.attributes == b.attributes;
  }

  size_t hash(const Op& op) const {
    size_t hash = std::hash<const OpDef*>()(op.def);
    for (const ValueIds* ids : {&op.inputs, &op.outputs}) {
      for (ValueId id : *ids) hash = mixed(hash, type_of(id));
    }
    // Integer attributes are hashed too, because many ops differ only in the attribute `site`, which selects the random draws of a dropout.
    for (const auto& [name, value] : op.attributes.items()) {
      if (const auto* integer = std::get_if<int64_t>(&value)) hash = mixed(hash, *integer);
    }
    return hash;
  }

 private:
  uint32_t type_of(ValueId id) const { return id == kNoValue ? 0 : types_[index_of(id)]; }

  std::vector<uint32_t> types_;
};

}  // namespace

OpKinds find_op_kinds(const Graph& graph) {
  OpKinds kinds;
  kinds.of_op.reserve(graph.ops().size());
  const KindOfOp kind_of(graph);
  std::unordered_multimap<size_t, uint32_t> by_hash;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    const size_t hash = kind_of.hash(op);
    const auto [begin, end] = by_hash.equal_range(hash);
    const auto it = std::find_if(begin, end, [&](const auto& entry) {
      return kind_of.is_same(op, graph.ops()[kinds.first_op[entry.second]]);
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
