// The part of the pass tensor_parallel that divides the vocabulary. Not thread-safe: changes the graph.
#pragma once

#include <cstdint>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"

namespace plimsoll {

// Divides the rows of the table of words among the ranks of a tensor-parallel group, and those of the matrix and of the bias of a
// language-model head; the logits and the loss follow (Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3). Marks the lookup
// with {tensor_ranks}, so that its result is a sum over the ranks, and the head's product, so that the gradient of its input is one.
// Types of values between these ops are those of the whole vocabulary until they are inferred anew.
//
// The first table of an embedding_sum is that of the words. A head is a product of rows with a weight that has a row per word,
// followed by nothing but a bias, the softmax cross entropy and the count of correct predictions. A weight stays whole if another op
// reads it, and so do all heads with DividedHeads::kNo. A table of words that a whole head reads is whole.
void divide_vocabulary(Graph& graph, int64_t ranks, DividedHeads heads);

}  // namespace plimsoll
