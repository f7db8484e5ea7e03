#include <bit>
#include <string>
#include <unordered_map>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

std::string key_of(const Op& op) {
  std::string key(op.def->name());
  for (ValueId id : op.inputs) key += "," + std::to_string(static_cast<uint32_t>(id));
  for (const auto& [name, value] : op.attributes.items()) {
    key += ";" + name + "=";
    if (const auto* integer = std::get_if<int64_t>(&value)) key += std::to_string(*integer);
    if (const auto* word = std::get_if<std::string>(&value)) key += *word;
    if (const auto* number = std::get_if<double>(&value))
      key += std::to_string(std::bit_cast<uint64_t>(*number));
  }
  return key;
}

void merge_equal_ops(Graph& graph) {
  std::vector<ValueId> replacement(graph.values().size());
  for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = ValueId{static_cast<uint32_t>(i)};
  std::unordered_map<std::string, ValueIds> first;
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
      const auto [it, inserted] = first.emplace(key_of(op), op.outputs);
      if (!inserted) {
        for (size_t i = 0; i < op.outputs.size(); ++i) {
          replacement[index_of(op.outputs[i])] = it->second[i];
          if (graph.value(op.outputs[i]).is_parameter_gradient)
            graph.value(it->second[i]).is_parameter_gradient = true;
        }
        continue;
      }
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
