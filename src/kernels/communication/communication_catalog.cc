#include "kernels/communication/communication_catalog.h"

namespace plimsoll {

// Slices begin at multiples of 256 bytes for elements of four bytes.
int64_t slice_elements(int64_t count, int64_t ranks) {
  constexpr int64_t kMultiple = 64;
  return ((count + ranks - 1) / ranks + kMultiple - 1) / kMultiple * kMultiple;
}

int64_t peer_scratch_bytes_of(int64_t count, int64_t element_bytes, int64_t ranks) {
  constexpr int64_t kMultiple = 256;
  const int64_t bytes = count * element_bytes;
  if (bytes < kSmallTensorBytes) return (bytes + kMultiple - 1) / kMultiple * kMultiple;
  return (ranks - 1) *
         ((slice_elements(count, ranks) * element_bytes + kMultiple - 1) / kMultiple * kMultiple);
}

namespace catalog_rows {

Support all_reduce_cuda_peers_support(const AllReduceProblem& problem) {
  if (problem.maps_peers) return {};
  return {false, "the GPUs do not map each other's memory"};
}

Support all_reduce_cuda_nccl_support(const AllReduceProblem& problem) {
  if (!problem.maps_peers) return {};
  return {false, "is used if the GPUs do not map each other's memory"};
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

}  // namespace catalog_rows
}  // namespace plimsoll
