#include "graph/ir/graph.h"

#include <fmt/format.h>

#include <vector>

namespace plimsoll {
namespace {

// Returns "'x' (input 'bias')", or "'x'" if the definition does not name its operands.
std::string input_text(const Graph& graph, const Op& op, size_t input) {
  const std::string name = op.def->input_name({graph, op}, static_cast<int>(input));
  const std::string& value = graph.value(op.inputs[input]).name;
  return name.empty() ? fmt::format("'{}'", value) : fmt::format("'{}' (input '{}')", value, name);
}

std::string output_text(const Graph& graph, const Op& op, size_t output) {
  const std::string name = op.def->output_name({graph, op}, static_cast<int>(output));
  const std::string& value = graph.value(op.outputs[output]).name;
  return name.empty() ? fmt::format("'{}'", value) : fmt::format("'{}' ({})", value, name);
}

std::optional<std::string> check_types(const Graph& graph, const Op& op, size_t index) {
  const std::vector<ValueType> types = op.def->infer({graph, op});
  if (types.size() != op.outputs.size()) {
    return fmt::format("op {} '{}' has {} outputs, but its definition infers {}", index, op.def->name(),
                       op.outputs.size(), types.size());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const Value& value = graph.value(op.outputs[i]);
    if (!(value.type == types[i])) {
      return fmt::format("op {} '{}': output {} has the type {}, but the definition of the op infers {}",
                         index, op.def->name(), output_text(graph, op, i), format_type(value.type),
                         format_type(types[i]));
    }
    if (value.producer != OpId{static_cast<uint32_t>(index)}) {
      return fmt::format("value '{}' must record op {} '{}' as its producer, but records another", value.name,
                         index, op.def->name());
    }
  }
  if (op.def->crosses_spaces()) return std::nullopt;
  for (const ValueIds* operands : {&op.inputs, &op.outputs}) {
    for (ValueId id : *operands) {
      if (id == kNoValue || graph.value(id).space == Space::kDevice) continue;
      return fmt::format(
          "op {} '{}' can only work on values in device memory, but '{}' is in the memory space '{}'", index,
          op.def->name(), graph.value(id).name, space_name(graph.value(id).space));
    }
  }
  return std::nullopt;
}

std::optional<std::string> check_values(const Graph& graph) {
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (graph.find(value.name) != ValueId{static_cast<uint32_t>(i)}) {
      return fmt::format("looking up the name '{}' must return the value of that name, but returns another",
                         value.name);
    }
    if (value.version_of == kNoValue) {
      const bool is_there = is_persistent(value.storage) || value.storage == Storage::kInput ||
                            value.storage == Storage::kDeferred;
      if (is_there && value.producer != kNoOp) {
        return fmt::format(
            "{} '{}' exists before the program runs, so an op may only produce it as a new version of an "
            "older value, but it is not marked as one",
            storage_name(value.storage), value.name);
      }
      continue;
    }
    const Value& older = graph.value(value.version_of);
    if (older.space != value.space) {
      return fmt::format("'{}' cannot take over the bytes of '{}', which is in another memory space",
                         value.name, older.name);
    }
    if (older.divided != value.divided) {
      return fmt::format(
          "'{}' cannot take over the bytes of '{}': both must be divided among the ranks in the same way",
          value.name, older.name);
    }
    const Bucket probe{.tokens = 5, .sequences = 3, .longest = 4, .labels = 2};
    if (older.bytes(probe) < value.bytes(probe)) {
      return fmt::format("'{}' ({}) cannot take over the bytes of '{}' ({}), which has fewer bytes",
                         value.name, format_type(value.type), older.name, format_type(older.type));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_violation(const Graph& graph) {
  if (auto violation = check_values(graph)) return violation;
  std::vector<bool> ready(graph.values().size());
  std::vector<bool> replaced(graph.values().size(), false);
  for (size_t i = 0; i < ready.size(); ++i) ready[i] = graph.values()[i].producer == kNoOp;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const ValueId id = op.inputs[k];
      if (id == kNoValue) continue;
      if (!ready[index_of(id)]) {
        return fmt::format("op {} '{}' reads {} before it is produced", i, op.def->name(),
                           input_text(graph, op, k));
      }
      if (replaced[index_of(id)]) {
        return fmt::format("op {} '{}' reads {} after a newer version of this value overwrote it", i,
                           op.def->name(), input_text(graph, op, k));
      }
    }
    if (auto violation = check_types(graph, op, i)) return violation;
    for (ValueId id : op.outputs) {
      if (ready[index_of(id)])
        return fmt::format("'{}' must be produced once, but is an output of two ops or already has a value",
                           graph.value(id).name);
      ready[index_of(id)] = true;
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      if (replaced[index_of(older)])
        return fmt::format("'{}' can have one newer version, but two values take over its bytes",
                           graph.value(older).name);
      replaced[index_of(older)] = true;
    }
  }
  return std::nullopt;
}

void verify(const Graph& graph, std::string_view when) {
  const auto violation = find_violation(graph);
  PLIMSOLL_CHECK(!violation, "{}: graph '{}': {}", when, graph.name(), *violation);
}

}  // namespace plimsoll
