// The text form of a graph: tests compare it, and the pass manager dumps it.
//
//   graph train {
//     weight %encoder.weight: f32[384,384]
//     input %ids: i32[T]
//     forward @bert.embeddings
//     %x: f32[T,384] = embedding_sum(%cu, %ids, %table) {tables=1}
//     %v: f32[384] into %old !gradient = accumulate(%old, %flag, %d)
//   }
//
// `into %old` marks a new version of %old, which occupies the same bytes. `!divided=4` marks a
// value of which each of four ranks has a slice (rank_slices.h). `_` is written for an optional
// operand that is absent. Module names contain no space.
#pragma once

#include <string>
#include <string_view>

#include "graph/ir/graph.h"

namespace plimsoll {

std::string print_graph(const Graph& graph);

// Finds a definition by its name. Returns null if there is none.
using OpLookup = const OpDef* (*)(std::string_view name);

// Parses a graph. Errors: kUsage with the line number if the text is malformed or a stated type differs from the
// inferred one.
Graph parse_graph(std::string_view text, OpLookup lookup);

}  // namespace plimsoll
