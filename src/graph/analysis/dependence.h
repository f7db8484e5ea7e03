// The order that ops must keep: data dependences, and readers of a value before the op that takes over its bytes.
// This is happens-before between ops that run on one stream in the order of the list; the analyses of liveness and
// schedule build on it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// The ops that must have finished before each op starts, and those that wait for it, without repetition and in
// increasing order.
struct Dependences {
  std::vector<std::vector<uint32_t>> before;
  std::vector<std::vector<uint32_t>> after;
};
Dependences find_dependences(const Graph& graph);

// Returns the ops that read each value.
std::vector<std::vector<uint32_t>> find_readers(const Graph& graph);

}  // namespace plimsoll
