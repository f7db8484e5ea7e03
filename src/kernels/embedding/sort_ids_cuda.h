// The kernel of sort_ids.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {

// One launch for all lists: by digits of 8 bits, the lowest first, stable. The number of tokens is
// *num_tokens in device memory; with a null pointer it is args.num_tokens.
void sort_ids_cuda(const SortIdsArgs& args, const int32_t* num_tokens, CudaStream stream);

}  // namespace plimsoll
