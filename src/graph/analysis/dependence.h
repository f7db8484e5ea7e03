// Who must run before whom: data dependences, and readers of a value before the op that takes its bytes over.
// Happens-before between ops that run on one stream in the order of the list; the liveness and schedule
// analyses build on it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// For every op, the ops that must have finished before it starts, without repetition, in increasing order.
struct Dependences {
  std::vector<std::vector<uint32_t>> before;
  std::vector<std::vector<uint32_t>> after;
};
Dependences find_dependences(const Graph& graph);

// For every value, the ops that read it.
std::vector<std::vector<uint32_t>> find_readers(const Graph& graph);

}  // namespace plimsoll
