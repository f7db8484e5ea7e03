// The scratch memory of the embedding kernels: the host-only part of the contracts in embedding.h and
// sort_ids.h. Thread-safe: pure functions.
#pragma once

#include <cstdint>

namespace plimsoll {

// The place of the next token of each id.
constexpr int64_t sort_ids_scratch_bytes(int64_t V) {
  return (V * 4 + 63) / 64 * 64;
}
// On a GPU: the pairs of each list, from pass to pass of the sort.
constexpr int64_t sort_ids_cuda_scratch_bytes(int64_t T, int64_t num_lists) {
  return num_lists * T * 8;
}

// On a GPU the sorted tokens are cut into pieces of kEmbeddingPiece tokens or more, and each piece has two
// rows of fp32: the sums of its first and of its last id, where those ids go on in the pieces beside it.
inline constexpr int64_t kEmbeddingPiece = 32;
constexpr int64_t embedding_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  const int64_t pieces = (T + kEmbeddingPiece - 1) / kEmbeddingPiece;
  return 2 * pieces * ((C + 3) / 4 * 4) * 4;
}

}  // namespace plimsoll
