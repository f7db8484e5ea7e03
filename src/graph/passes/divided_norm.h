// Functions that divide the norm of all gradients among ranks. The passes shard_states, tensor_states and pipeline_states use them. Not
// thread-safe: changes a graph.
#pragma once

#include <vector>

#include "base/rank_mesh.h"
#include "graph/ir/graph.h"

namespace plimsoll {

// Replaces the norm of all gradients by ops that compute it from the norms of the ranks along an axis of the mesh. Each rank computes the
// norm of its slice of each gradient, or of its part of a gradient that a tensor-parallel group divides (Value::split):
//
//   norm, finite, bad = norm(g.., loss)  ->  norms, _, bad = norm(g..) {ranks}; all_gather(norms, bad); norm, finite = norm(norms, loss)
//
// The norms of the ranks are rounded to the type of the norm. Requires: every gradient that the op reads is divided in one of these two
// ways.
void append_divided_norm(Graph& graph, const Op& norm, const RankSlices& slices, MeshAxis axis,
                         std::vector<Op>& ops);

// Requires a norm op that covers only the gradients that this rank, or its data-parallel group, stores. Replaces its result by the norm
// over all ranks along another axis of the mesh, which store other gradients or other parts of them:
//
//   norm, finite, bad = norm(g.., loss)  ->  own, _, bad = norm(g..); norms = norm(own) {ranks}; all_gather(norms);
//                                            norm, finite = norm(norms, loss)
//
// `bad` remains the number of the first gradient of this rank that is not finite.
void append_norm_of_ranks(Graph& graph, const Op& norm, int64_t ranks, MeshAxis axis, std::vector<Op>& ops);

// Appends an op that gathers the slices of these values along an axis of the mesh, in the segment (forward, backward or optimizer) and the
// module of the op `like`. Returns the new versions of the values.
std::vector<ValueId> append_gather(Graph& graph, const Op& like, const std::vector<ValueId>& values,
                                   const RankSlices& slices, MeshAxis axis, std::vector<Op>& ops);

}  // namespace plimsoll
