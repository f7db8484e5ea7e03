#include "graph/ir/graph.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

std::string_view storage_name(Storage storage) {
  switch (storage) {
    case Storage::kTransient:
      return "transient";
    case Storage::kWeight:
      return "weight";
    case Storage::kOptimizerState:
      return "state";
    case Storage::kGradient:
      return "gradient";
    case Storage::kCache:
      return "cache";
    case Storage::kMessage:
      return "message";
    case Storage::kInput:
      return "input";
    case Storage::kOutput:
      return "output";
    case Storage::kDeferred:
      return "deferred";
  }
  return "?";
}

std::string_view segment_name(Segment segment) {
  switch (segment) {
    case Segment::kForward:
      return "forward";
    case Segment::kBackward:
      return "backward";
    case Segment::kOptimizer:
      return "optimizer";
  }
  return "?";
}

std::string_view space_name(Space space) {
  switch (space) {
    case Space::kDevice:
      return "device";
    case Space::kHost:
      return "host";
    case Space::kDisk:
      return "disk";
  }
  return "?";
}

std::string format_type(const ValueType& type) {
  return std::string(dtype_name(type.dtype)) + format_shape(type.shape);
}

Graph::Graph(std::string name) : name_(std::move(name)) {}

ValueId Graph::add_value(std::string_view name, ValueType type, Storage storage) {
  return add_named(std::string(name), type, storage);
}

ValueId Graph::add_named(std::string name, const ValueType& type, Storage storage) {
  const auto id = static_cast<uint32_t>(values_.size());
  const bool is_new = values_by_name_.insert(name, id, [this](uint32_t value) { return name_of(value); });
  PLIMSOLL_CHECK(is_new, "a value cannot be named '{}': graph '{}' already has a value of that name", name,
                 name_);
  Value& value = values_.emplace_back();
  value.name = std::move(name);
  value.type = type;
  value.storage = storage;
  value.module = module_;
  return ValueId{id};
}

ValueId Graph::newest(ValueId id) const {
  for (uint32_t i = 0; id != kNoValue && i < values_.size(); ++i) {
    if (values_[i].version_of != id) continue;
    id = ValueId{i};
    i = 0;
  }
  return id;
}

ValueId Graph::add_input(std::string_view name, ValueType type, const InputRule& rule) {
  const ValueId id = add_value(name, type, Storage::kInput);
  value(id).input = rule;
  return id;
}

OpId Graph::add_op(const OpDef& def, ValueIds inputs, Attributes attributes,
                   std::span<const std::string> output_names) {
  for (ValueId id : inputs) {
    PLIMSOLL_CHECK(id == kNoValue || index_of(id) < values_.size(),
                   "cannot add the op '{}': one of its inputs is not a value of the graph", def.name());
  }
  const OpId id{static_cast<uint32_t>(ops_.size())};
  ops_.push_back({.def = &def,
                  .inputs = std::move(inputs),
                  .outputs = {},
                  .attributes = std::move(attributes),
                  .segment = segment_,
                  .module = module_});
  const std::vector<ValueType> types = def.infer({*this, ops_.back()});
  for (size_t i = 0; i < types.size(); ++i) {
    std::string name = unique_name(i < output_names.size() ? output_names[i] : def.name());
    const ValueId value = add_named(std::move(name), types[i], Storage::kTransient);
    values_.back().producer = id;
    ops_.back().outputs.push_back(value);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const int source = def.writes_into({*this, ops_.back()}, static_cast<int>(i));
    Value& written = value(ops_.back().outputs[i]);
    if (source < 0) {
      written.space = def.output_space({*this, ops_.back()}, static_cast<int>(i));
      continue;
    }
    written.version_of = ops_.back().inputs[static_cast<size_t>(source)];
    written.storage = value(written.version_of).storage;
    written.space = value(written.version_of).space;
  }
  return id;
}

void Graph::set_module(std::string_view module) {
  const auto name_of_module = [this](uint32_t i) -> std::string_view { return modules_[i]; };
  uint32_t number = module.empty() ? 0 : modules_by_name_.find(module, name_of_module);
  if (number == NameIndex::kAbsent) {
    number = static_cast<uint32_t>(modules_.size());
    modules_by_name_.insert(module, number, name_of_module);
    modules_.emplace_back(module);
  }
  module_ = ModuleId{number};
}

ValueId Graph::find(std::string_view name) const {
  return ValueId{values_by_name_.find(name, [this](uint32_t value) { return name_of(value); })};
}

ValueId Graph::required(std::string_view name, Storage storage) const {
  const ValueId id = find(name);
  PLIMSOLL_CHECK(id != kNoValue && value(id).storage == storage,
                 "graph '{}' must have a value of storage class '{}' named '{}', but has none", name_,
                 storage_name(storage), name);
  return id;
}

std::string Graph::unique_name(std::string_view stem) {
  std::string name(stem);
  if (!has_name(name)) return name;
  uint32_t& number = last_number_[name];
  std::string candidate;
  do {
    candidate = name + "." + std::to_string(++number);
  } while (has_name(candidate));
  return candidate;
}

void Graph::rename(ValueId id, std::string_view name) {
  PLIMSOLL_CHECK(!has_name(name), "a value cannot be named '{}': graph '{}' already has a value of that name",
                 name, name_);
  const auto of_value = [this](uint32_t value) { return name_of(value); };
  values_by_name_.erase(value(id).name, of_value);
  values_by_name_.insert(name, static_cast<uint32_t>(id), of_value);
  value(id).name = name;
}

void Graph::replace_ops(std::vector<Op> ops) {
  ops_ = std::move(ops);
  for (Value& value : values_) value.producer = kNoOp;
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (ValueId output : ops_[i].outputs) value(output).producer = OpId{static_cast<uint32_t>(i)};
  }
}

void Graph::reorder_ops(std::span<const uint32_t> order) {
  PLIMSOLL_CHECK(order.size() == ops_.size(),
                 "the new order of ops must name every op once, but has {} entries for {} ops", order.size(),
                 ops_.size());
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (const uint32_t i : order) ops.push_back(std::move(ops_[i]));
  replace_ops(std::move(ops));
}

void Graph::drop_unused_values() {
  std::vector<bool> used(values_.size(), false);
  for (size_t i = 0; i < values_.size(); ++i) used[i] = values_[i].storage != Storage::kTransient;
  for (const Op& op : ops_) {
    for (ValueId id : op.inputs) {
      if (id != kNoValue) used[index_of(id)] = true;
    }
    for (ValueId id : op.outputs) used[index_of(id)] = true;
  }
  for (size_t i = values_.size(); i-- > 0;) {
    // If the op that wrote a newer version of a persistent value was removed, this version is removed too.
    if (values_[i].version_of != kNoValue && values_[i].producer == kNoOp) used[i] = false;
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return;
  std::vector<uint32_t> renumbered(values_.size(), static_cast<uint32_t>(kNoValue));
  uint32_t kept = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!used[i]) continue;
    if (kept != i) values_[kept] = std::move(values_[i]);
    renumbered[i] = kept++;
  }
  values_.resize(kept);
  values_by_name_.renumber(renumbered);
  const auto remap = [&](ValueId& id) {
    if (id != kNoValue) id = ValueId{renumbered[index_of(id)]};
  };
  for (Value& value : values_) remap(value.version_of);
  for (Op& op : ops_) {
    for (ValueId& id : op.inputs) remap(id);
    for (ValueId& id : op.outputs) remap(id);
  }
}

}  // namespace plimsoll
