// Ops of a graph that are alike: the same definition, attributes and types of operands and results, whatever
// the values are called. What a catalog says of one of them, in any bucket, it says of all, and so does a
// table of rates. Layers repeat each other, so the kinds are far fewer than the ops. A pure function;
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

struct OpKinds {
  std::vector<uint32_t> of_op;     // of each op
  std::vector<uint32_t> first_op;  // of each kind, the position of its first op; ascending
};

OpKinds find_op_kinds(const Graph& graph);

}  // namespace plimsoll
