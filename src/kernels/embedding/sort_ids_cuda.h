// The kernel of sort_ids.h on an NVIDIA GPU. element_wise/add_cuda.h states the rules for all CUDA kernels.
// Host-only header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {

// Sorts all lists in one launch, by digits of 8 bits, the lowest first; the sort is stable. Reads the number
// of tokens from *num_tokens in device memory; with a null pointer it is args.num_tokens.
void sort_ids_cuda(const SortIdsArgs& args, const int32_t* num_tokens, CudaStream stream);

}  // namespace plimsoll
