// The ops that a run of a program executes for the run before it: they update weights with deferred gradients, or copy
// deferred states back to the host. All are in the forward segment. They are skipped if no run came before, or if their
// work was done already. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// Returns true by position for ops that read deferred values, for copies to the host of their results, and for copies to
// the device of values that only they read.
std::vector<bool> find_deferred_ops(const Graph& graph);

// Returns the last segment in which a run writes a value that deferred ops read: after it, the next run has deferred
// work. Returns nothing if there are no such ops. `is_deferred` is the result of find_deferred_ops().
std::optional<Segment> find_deferring_segment(const Graph& graph, const std::vector<bool>& is_deferred);

}  // namespace plimsoll
