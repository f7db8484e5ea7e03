// The scratch memory of the optimizer's kernels: the host-only part of their contracts. Thread-safe:
// constants.
#pragma once

#include <cstdint>

namespace plimsoll {

// Blocks of threads that share the elements of a global norm on a GPU, and what each leaves: its sum of
// squares and the first tensor that it found not finite.
inline constexpr int64_t kGlobalNormCudaBlocks = 1024;
inline constexpr int64_t kGlobalNormCudaScratchBytes = kGlobalNormCudaBlocks * 16;

}  // namespace plimsoll
