// The kernel problem and the scratch memory of collective kernels: the host-only part of the contracts in all_reduce.h,
// reduce_scatter.h and head_exchange.h. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// The kernel problem of all_reduce, reduce_scatter, all_gather and head_exchange.
struct AllReduceProblem {
  int64_t ranks = 1;
  int64_t largest_bytes = 0;  // bytes of the largest tensor
  int64_t small_bytes = 0;    // sum of the bytes of all tensors that have fewer than kSmallTensorBytes
  bool maps_peers = false;    // the GPUs map each other's memory
  // Scratch memory into which the kernels with mapped memory copy the slices of other ranks.
  int64_t peer_scratch_bytes = 0;
};

// Tensors of fewer bytes are copied into one block of memory and exchanged together, because every operation takes at least about as long
// as sending this many bytes.
inline constexpr int64_t kSmallTensorBytes = int64_t{64} << 10;

// Returns the number of elements of the slice that a rank sums; the slices of the last ranks may be smaller.
int64_t slice_elements(int64_t count, int64_t ranks);
// Returns the distance in bytes, in scratch memory, between the copies of two ranks' slices.
int64_t peer_copy_bytes(int64_t elements, int64_t element_bytes);
// Return the scratch memory that all_reduce_cuda_peers and reduce_scatter_cuda_peers need for one tensor.
int64_t peer_scratch_bytes_of(int64_t count, int64_t element_bytes, int64_t ranks);
int64_t peer_scatter_bytes_of(int64_t count, int64_t slice, int64_t element_bytes, int64_t ranks);

namespace catalog_rows {
Support mapped_memory_support(const AllReduceProblem& problem);
Support nccl_support(const AllReduceProblem& problem);
int64_t all_reduce_cuda_peers_scratch(const AllReduceProblem& problem);
int64_t all_reduce_cpu_scratch(const AllReduceProblem& problem);
int64_t all_reduce_ref_scratch(const AllReduceProblem& problem);
int64_t head_exchange_scratch(const AllReduceProblem& problem);
}  // namespace catalog_rows

}  // namespace plimsoll
