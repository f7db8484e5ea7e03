// Matrix products on Hopper's tensor cores by a warpgroup of four warps, with the wgmma instructions of sm_90a (compute capability 9.0
// only). The operands are tiles in shared memory whose rows have 64 16-bit elements. The products are asynchronous: their accumulators must
// not be accessed between close_products() and wait_for_products(). Device code only.
#pragma once

#include <cstdint>

namespace plimsoll::wgmma {

inline constexpr int kWarpgroup = 128;  // number of threads of a warpgroup

// Returns the descriptor of a tile of rows of 64 16-bit elements in which chunk c of 16 bytes of row r is stored at position c ^ r % 8. PTX
// calls this layout a 128-byte swizzle. Groups of eight rows are 1024 bytes apart. Requires: the tile begins at a multiple of 1024 bytes.
__device__ inline uint64_t descriptor(uint32_t tile) {
  return static_cast<uint64_t>((tile & 0x3ffffu) >> 4) | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 |
         uint64_t{1} << 62;
}
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void close_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Makes ordinary stores to shared memory visible to later matrix products and to TMA copies. Both access shared memory through the "async
// proxy", which does not wait for ordinary stores.
__device__ inline void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace plimsoll::wgmma
