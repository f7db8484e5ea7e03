// Copies of tiles between device memory and shared memory by Hopper's copy engine (TMA), which one thread
// starts, and the barriers in shared memory that count their bytes (PTX ISA, "cp.async.bulk.tensor" and
// "mbarrier"). Compute capability 9.0 and later. Device code only.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace plimsoll::tma {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A barrier is eight bytes. Its phases end, alternating between 0 and 1, when as many have arrived as it was
// made for and all bytes that were announced are there.
__device__ inline void make_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// Before other threads and the copy engine use new barriers; followed by __syncthreads().
__device__ inline void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Until the phase of this number has ended; of a new barrier, 1 has.
__device__ inline void wait(uint32_t barrier, uint32_t phase) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::
          "r"(barrier),
      "r"(phase)
      : "memory");
}

// Bytes that lie together to shared memory: a multiple of 16 from and to multiples of 16.
__device__ inline void load(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// The map's box at (column, row) to shared memory; what lies beyond the matrix is zero.
__device__ inline void load(uint32_t to, const CUtensorMap* map, uint32_t barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}
// The same box to the L2 cache.
__device__ inline void prefetch(const CUtensorMap* map, int column, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(column),
               "r"(row)
               : "memory");
}
// From shared memory to the map's box at (column, row), as a group of this thread's; what lies beyond the
// matrix is not written.
__device__ inline void store(const CUtensorMap* map, uint32_t from, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(column), "r"(row)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until all but the last kPending of this thread's stores have read shared memory.
template <int kPending>
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Until all of this thread's stores are done.
__device__ inline void wait_until_stored() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace plimsoll::tma
