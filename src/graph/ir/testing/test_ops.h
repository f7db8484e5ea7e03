// Ops for tests of graphs. The graph itself knows no list of ops. Stateless; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll::testing {

// sum(a, b?): the result has the type of a. If b is present, it must have the same type.
class SumDef final : public OpDef {
 public:
  std::string_view name() const override { return "sum"; }
  std::vector<ValueType> infer(const OpView& op) const override {
    PLIMSOLL_CHECK(op.num_inputs() == 2, "sum has {} operands", op.num_inputs());
    PLIMSOLL_CHECK(!op.has_input(1) || op.input(0).type == op.input(1).type, "sum of two types");
    return {op.input(0).type};
  }
};

// split(a): two outputs, each of the type of a.
class SplitDef final : public OpDef {
 public:
  std::string_view name() const override { return "split"; }
  std::vector<ValueType> infer(const OpView& op) const override {
    return {op.input(0).type, op.input(0).type};
  }
};

// update(old, by): a new version of old, in its bytes.
class UpdateDef final : public OpDef {
 public:
  std::string_view name() const override { return "update"; }
  std::vector<ValueType> infer(const OpView& op) const override { return {op.input(0).type}; }
  int writes_into(const OpView&, int) const override { return 0; }
};

// fetch(a): copies a, which may be in host or device memory, to the device.
class FetchDef final : public OpDef {
 public:
  std::string_view name() const override { return "fetch"; }
  std::vector<ValueType> infer(const OpView& op) const override { return {op.input(0).type}; }
  bool crosses_spaces() const override { return true; }
};

inline const SumDef kSum;
inline const SplitDef kSplit;
inline const UpdateDef kUpdate;
inline const FetchDef kFetch;

// Returns the test op of this name, or null. Can be passed as an OpLookup (graph_text.h).
inline const OpDef* find_test_op(std::string_view name) {
  for (const OpDef* def : std::initializer_list<const OpDef*>{&kSum, &kSplit, &kUpdate, &kFetch}) {
    if (def->name() == name) return def;
  }
  return nullptr;
}

}  // namespace plimsoll::testing
