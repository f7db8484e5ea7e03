// Kinds of ops in a graph. Two ops are of one kind if they have the same definition, the same attributes and the same
// types of operands and results, whatever their values are called. The kernel and the estimated time of one of them,
// in any bucket, are those of all. Layers repeat each other, so there are far fewer kinds than ops. A pure function;
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

struct OpKinds {
  std::vector<uint32_t> of_op;     // the kind of each op
  std::vector<uint32_t> first_op;  // the position of the first op of each kind; ascending
};

// Returns the kinds in the order of their first ops.
OpKinds find_op_kinds(const Graph& graph);

}  // namespace plimsoll
