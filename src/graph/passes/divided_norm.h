// The norm of gradients that ranks divide, shared by the passes shard_states and tensor_states. Not thread-safe: changes a graph.
#pragma once

#include <vector>

#include "base/rank_mesh.h"
#include "graph/ir/graph.h"

namespace plimsoll {

// The ranks that exchange something, and how.
struct RankGroup {
  MeshAxis axis = MeshAxis::kData;
  bool maps_peers = false;  // their GPUs map each other's memory
};

// Appends ops that compute what the norm `norm` computes from the norms of the ranks of an axis, each of which reads the slice of its
// rank of each gradient, or its part of a gradient that a tensor-parallel group divides (Value::split):
//
//   norm, finite, bad = norm(g.., loss)  ->  norms, _, bad = norm(g..) {ranks}; all_gather(norms, bad); norm, finite = norm(norms, loss)
//
// The norms of the ranks are rounded to the type of the norm. Requires: no gradient is read in another way by the op.
void append_divided_norm(Graph& graph, const Op& norm, const RankSlices& slices, const RankGroup& group,
                         std::vector<Op>& ops);

// Appends an op that gathers the slices of these values along an axis, like `like` in the segment and the module, and returns the new
// versions.
std::vector<ValueId> append_gather(Graph& graph, const Op& like, const std::vector<ValueId>& values,
                                   const RankSlices& slices, const RankGroup& group, std::vector<Op>& ops);

}  // namespace plimsoll
