// The problem and the scratch memory of collective kernels: the host-only part of the contracts in all_reduce.h
// and reduce_scatter.h.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// The problem of all_reduce, reduce_scatter and all_gather.
struct AllReduceProblem {
  int64_t ranks = 1;
  int64_t largest_bytes = 0;  // of the largest tensor
  int64_t small_bytes = 0;    // of all tensors with fewer than kSmallTensorBytes bytes
  bool maps_peers = false;    // the GPUs map each other's memory
  int64_t peer_scratch_bytes =
      0;  // for copies of the slices of other ranks, of the kernels with mapped memory
};

// Every operation takes about as long as sending this many bytes, so that smaller tensors are first copied into one piece of
// memory.
inline constexpr int64_t kSmallTensorBytes = int64_t{64} << 10;

// Returns the number of elements of the slice that a rank sums; those of the last ranks may be smaller.
int64_t slice_elements(int64_t count, int64_t ranks);
// Returns the bytes from one copy of a slice to the next one.
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
}  // namespace catalog_rows

}  // namespace plimsoll
