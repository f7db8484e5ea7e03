// The part of the pass tensor_parallel that divides the vocabulary. Not thread-safe: changes the graph.
#pragma once

#include <cstdint>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"

namespace plimsoll {

// Divides the rows of the word table among the ranks of a tensor-parallel group, and the rows of the matrix and of the bias of a
// language-model head. Logits and loss are divided accordingly (Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3). Sets the
// attribute `tensor_ranks` of the embedding lookup, so that its result is summed over the ranks, and of the head's matrix product, so that
// the gradient of its input is summed. The types of the values between these ops still have the size of the whole vocabulary; the caller
// must infer them again.
//
// The first table of an embedding_sum is the word table. A head is a matrix product with a weight that has one row per word, followed only
// by a bias, the softmax cross entropy and the count of correct predictions. A weight that another op reads is not divided, and with
// DividedHeads::kNo no head is. A word table that an undivided head also reads is not divided either.
void divide_vocabulary(Graph& graph, int64_t ranks, DividedHeads heads);

}  // namespace plimsoll
