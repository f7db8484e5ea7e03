// The sizes by which the kernel catalog selects an implementation of a collective kernel, and the bytes of its scratch memory. Belongs to
// the contracts in all_reduce.h, reduce_scatter.h and head_exchange.h. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// The sizes of a call of all_reduce, reduce_scatter, all_gather or head_exchange.
struct AllReduceProblem {
  int64_t ranks = 1;
  int64_t largest_bytes = 0;  // number of bytes of the largest tensor
  int64_t small_bytes = 0;    // sum of the bytes of all tensors that are smaller than kSmallTensorBytes
  bool maps_peers = false;    // true if each GPU maps the memory of the other GPUs
  // Bytes of scratch memory for the copies of the other ranks' elements. Only the kernels that use mapped memory need it.
  int64_t peer_scratch_bytes = 0;
};

// Tensors with fewer bytes than this are copied into one block of memory and exchanged together, because each exchange has a fixed cost.
// Sending this number of bytes takes about as long as that fixed cost.
inline constexpr int64_t kSmallTensorBytes = int64_t{64} << 10;

// Returns the number of elements of a slice, the part of a tensor that one rank sums. The slices of the last ranks may have fewer.
int64_t slice_elements(int64_t count, int64_t ranks);
// Returns the number of bytes between two copies of slices in scratch memory. It is also the space that one copy
// takes.
int64_t peer_copy_bytes(int64_t elements, int64_t element_bytes);
// Return the number of bytes of scratch memory that all_reduce_cuda_peers and reduce_scatter_cuda_peers need for one tensor.
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
