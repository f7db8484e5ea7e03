// What a run of a program does for the run before: with what that left in carried values it finishes updates
// or copies states home. It all stands in the forward segment, and nothing of it is done where no run came
// before, or where what that left was done already. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// By position: ops that read carried values, copies to the host of what those ops make, and copies to the
// device of what they alone read.
std::vector<bool> find_ops_of_last_run(const Graph& graph);

// The last segment in which a run leaves something that such ops read: once it has run, they have something
// to do. Nothing where there are none. `of_last_run` is find_ops_of_last_run().
std::optional<Segment> find_leaving_segment(const Graph& graph, const std::vector<bool>& of_last_run);

}  // namespace plimsoll
