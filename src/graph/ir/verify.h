// Checks the invariants of a graph (graph.h). Runs before and after every pass.
#pragma once

#include <optional>
#include <string>

#include "graph/ir/graph.h"

namespace plimsoll {

// The first broken invariant in words (op, value and both sides), or nothing. Cost: linear in ops and
// operands.
std::optional<std::string> find_violation(const Graph& graph);

// Errors: kInternal, "after pass X: ..." with the violation.
void verify(const Graph& graph, std::string_view when);

}  // namespace plimsoll
