// Copies of tiles between device memory and shared memory by Hopper's copy engine (TMA), each started by one thread, and the barriers in
// shared memory that count the copied bytes (PTX ISA, "cp.async.bulk.tensor" and "mbarrier"). Compute capability 9.0 and later. Device code
// only.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace plimsoll::tma {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Creates a barrier, which occupies eight bytes of shared memory. A phase of the barrier ends when the given number of threads have arrived
// and all announced bytes have been copied. Phases are numbered 0 and 1 alternately.
__device__ inline void make_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// Makes new barriers visible to other threads and to the copy engine. Must be followed by __syncthreads().
__device__ inline void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Waits until the phase with this number has ended. For a new barrier, which is in phase 0, a wait for phase 1 returns at once.
__device__ inline void wait(uint32_t barrier, uint32_t phase) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::
          "r"(barrier),
      "r"(phase)
      : "memory");
}

// Starts to copy a contiguous range to shared memory. Both addresses and the size are multiples of 16 bytes.
__device__ inline void load(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// Starts to copy the box of the tensor map at (column, row) to shared memory. Elements outside the matrix become zero.
__device__ inline void load(uint32_t to, const CUtensorMap* map, uint32_t barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}
// Starts to copy the box of the tensor map at (column, row) to the L2 cache.
__device__ inline void prefetch(const CUtensorMap* map, int column, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(column),
               "r"(row)
               : "memory");
}
// Starts to copy from shared memory to the box of the tensor map at (column, row). Elements outside the matrix are not written. Each call
// starts one store; the two functions below wait for stores.
__device__ inline void store(const CUtensorMap* map, uint32_t from, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(column), "r"(row)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until all stores of this thread except the last kPending have read shared memory.
template <int kPending>
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Waits until all stores of this thread have completed.
__device__ inline void wait_until_stored() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace plimsoll::tma
