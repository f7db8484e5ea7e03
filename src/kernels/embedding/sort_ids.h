// Sorts the tokens of a batch by their ids, for the gradients of embeddings (embedding.h). The header states the contract of these kernels,
// which allocate no memory.
//
//   sorted_k[i] = the pairs (ids_k[t], t) for t < num_tokens, sorted by id and then by t, followed by (kNoId, t) for t >= num_tokens
//
// Legend: T rows (one per token, then unused tail rows); V is larger than every id. Several lists are sorted in one call.
//
// Repeatability: integers, the same everywhere. Aliasing: outputs overlap no operand. Scratch:
// sort_ids_scratch_bytes, on a GPU sort_ids_cuda_scratch_bytes, aligned to 16. Cost: T (12 + 16 passes) bytes
// moved per list, with one pass on a CPU and one per 8 bits of V on a GPU.
//
// Requires: 0 <= ids_k[t] < V for t < num_tokens (the caller has validated them; later ids are never read), 0
// <= num_tokens <= T, 1 <= num_lists <= kMaxEmbeddingTables.
//
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory. Errors:
// kInternal if a view is absent or has an unsupported type.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/embedding/embedding.h"

namespace plimsoll {

// The id of unused tokens in the result. It is an id that no table contains.
inline constexpr int32_t kNoId = std::numeric_limits<int32_t>::max();

struct SortIdsArgs {
  std::array<ConstView, kMaxEmbeddingTables> ids = {};  // ids of the tokens per table, i32, shape [T]
  std::array<View, kMaxEmbeddingTables> sorted = {};    // output, the pairs (id, token), i32, shape [T, 2]
  int num_lists = 0;
  int64_t T = 0;
  int64_t V = 0;
  int64_t num_tokens = 0;
  View scratch;
};
void sort_ids_ref(const SortIdsArgs& args);
void sort_ids_cpu(const SortIdsArgs& args);

// Checks the arguments against the requirements that are stated above. Errors: kInternal if they do not meet them.
void check_sort_ids(const char* kernel, const SortIdsArgs& args);

// The function below runs on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels.

// Sorts all lists in one launch, by digits of 8 bits, the lowest first; the sort is stable. Reads the number of tokens from *num_tokens in
// device memory; if `num_tokens` is null, it is args.num_tokens.
void sort_ids_cuda(const SortIdsArgs& args, const int32_t* num_tokens, CudaStream stream);

}  // namespace plimsoll
