// The description of attention ops. Thread-safe: pure functions.
#pragma once

#include "graph/ops/op.h"
#include "kernels/attention/attention_catalog.h"

namespace plimsoll {

// Returns the sizes of attention or attention_bwd, whose first input packs q, k and v of all heads: qkv[T, 3HD].
AttentionDims attention_dims(const OpView& op, const Bucket& bucket);
// Returns the problem of first_token_attention, whose inputs are x[T, C] and w[3HD, C].
FirstTokenAttentionProblem first_token_attention_problem(const OpView& op, const Bucket& bucket);

}  // namespace plimsoll
