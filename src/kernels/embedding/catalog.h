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

}  // namespace plimsoll
