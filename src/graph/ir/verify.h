// Checks the invariants of a graph (graph.h). Runs before and after every pass.
#pragma once

#include <optional>
#include <string>

#include "graph/ir/graph.h"

namespace plimsoll {

// Returns a description of the first broken invariant (op, value and both sides), or nothing. Cost: linear in ops and
// operands.
std::optional<std::string> find_violation(const Graph& graph);

// Throws kInternal with the violation if an invariant is broken; `when` is for example "after pass X".
void verify(const Graph& graph, std::string_view when);

}  // namespace plimsoll
