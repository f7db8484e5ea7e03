// Products on Hopper's tensor cores, by a warpgroup of four warps at a time (wgmma: compute capability 9.0
// alone, code for sm_90a), of tiles of rows of 64 16-bit elements in shared memory. They are asynchronous:
// between close_products() and wait_for_products() nobody touches their accumulators. Device code only.
#pragma once

#include <cstdint>

namespace plimsoll::wgmma {

inline constexpr int kWarpgroup = 128;  // threads

// A tile of rows of 64 16-bit elements, whose chunk of 16 bytes number c lies at place c ^ r % 8 of row r, is
// what the hardware calls a swizzle of 128 bytes, where it starts at a multiple of 1024: groups of eight rows
// lie 1024 bytes apart.
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
// What ordinary stores and copies left in shared memory becomes visible to products and to bulk copies.
__device__ inline void show_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace plimsoll::wgmma
