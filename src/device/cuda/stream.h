// A CUDA stream as host code passes it around, without CUDA's headers: the same type as cudaStream_t.
// Work given to one stream runs in the order in which it was given. Not an owner.
#pragma once

struct CUstream_st;

namespace plimsoll {
using CudaStream = ::CUstream_st*;
}  // namespace plimsoll
