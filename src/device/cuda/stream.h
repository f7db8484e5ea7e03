// A CUDA stream as host code passes it around without CUDA's headers; the same type as cudaStream_t. Work on
// one stream runs in the order in which it was enqueued. Does not own the stream.
#pragma once

struct CUstream_st;

namespace plimsoll {
using CudaStream = ::CUstream_st*;
}  // namespace plimsoll
