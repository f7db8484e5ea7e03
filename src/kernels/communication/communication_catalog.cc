#include "kernels/communication/communication_catalog.h"

namespace plimsoll {

// Returns the number of elements of a slice. It is a multiple of 64, so that slices begin at multiples of 256 bytes if elements have four
// bytes.
int64_t slice_elements(int64_t count, int64_t ranks) {
  constexpr int64_t kMultiple = 64;
  return ((count + ranks - 1) / ranks + kMultiple - 1) / kMultiple * kMultiple;
}

int64_t peer_copy_bytes(int64_t elements, int64_t element_bytes) {
  constexpr int64_t kMultiple = 256;
  return (elements * element_bytes + kMultiple - 1) / kMultiple * kMultiple;
}

int64_t peer_scratch_bytes_of(int64_t count, int64_t element_bytes, int64_t ranks) {
  if (count * element_bytes < kSmallTensorBytes) return peer_copy_bytes(count, element_bytes);
  return (ranks - 1) * peer_copy_bytes(slice_elements(count, ranks), element_bytes);
}

int64_t peer_scatter_bytes_of(int64_t count, int64_t slice, int64_t element_bytes, int64_t ranks) {
  if (count * element_bytes < kSmallTensorBytes) return 0;
  return (ranks - 1) * peer_copy_bytes(slice, element_bytes);
}

namespace catalog_rows {

Support mapped_memory_support(const AllReduceProblem& problem) {
  if (problem.maps_peers) return {};
  return {false, "needs GPUs that map each other's memory, but these do not"};
}

Support nccl_support(const AllReduceProblem& problem) {
  if (!problem.maps_peers) return {};
  return {false, "is used only for GPUs that do not map each other's memory"};
}

int64_t all_reduce_cuda_peers_scratch(const AllReduceProblem& problem) {
  return problem.peer_scratch_bytes;
}

int64_t all_reduce_cpu_scratch(const AllReduceProblem& problem) {
  return problem.small_bytes;
}

int64_t all_reduce_ref_scratch(const AllReduceProblem& problem) {
  return problem.ranks * problem.largest_bytes;
}

int64_t head_exchange_scratch(const AllReduceProblem& problem) {
  return problem.largest_bytes;
}

}  // namespace catalog_rows
}  // namespace plimsoll
