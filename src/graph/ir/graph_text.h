// The text form of a graph: what tests compare, passes dump and people read.
//
//   graph train {
//     weight %encoder.weight: f32[384,384]
//     input %ids: i32[T]
//     forward @bert.embeddings
//     %x: f32[T,384] = embedding_sum(%cu, %ids, %table) {tables=1}
//     %v: f32[384] into %old !gradient = accumulate(%old, _, %d)
//   }
//
// `into %old`: a new version that occupies the bytes of %old. `_`: an absent optional operand. Module names
// hold no space.
#pragma once

#include <string>
#include <string_view>

#include "graph/ir/graph.h"

namespace plimsoll {

std::string print_graph(const Graph& graph);

// Looks a definition up by name; null if there is none.
using OpLookup = const OpDef* (*)(std::string_view name);

// The graph of a text. Errors: kUsage with the line number where the text is wrong or a stated type is not
// the inferred one.
Graph parse_graph(std::string_view text, OpLookup lookup);

}  // namespace plimsoll
