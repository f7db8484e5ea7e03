// The scratch memory of the embedding kernels: the host-only part of the contract in embedding.h.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>

namespace plimsoll {

// Tokens in the order of their ids, found by counting: an i32 for each row of the table and one for each
// token.
constexpr int64_t embedding_bwd_scratch_bytes(int64_t T, int64_t V) {
  return ((V + T) * 4 + 63) / 64 * 64;
}

// On a GPU: tokens and their ids sorted by id (twice, from pass to pass of the sort), cut into pieces of
// kEmbeddingPiece tokens or more, and for each piece two rows of fp32: the sums of its first and of its last
// id, where those ids go on in the pieces beside it.
inline constexpr int64_t kEmbeddingPiece = 32;
constexpr int64_t embedding_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  const int64_t pieces = (T + kEmbeddingPiece - 1) / kEmbeddingPiece;
  return 4 * ((T * 4 + 15) / 16 * 16) + 2 * pieces * ((C + 3) / 4 * 4) * 4;
}

}  // namespace plimsoll
