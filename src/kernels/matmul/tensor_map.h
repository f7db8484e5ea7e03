// Describes a matrix in device memory for TMA, the copy engine of GPUs of compute capability 9.0 (tma.cuh). The description, a "tensor
// map", has 128 bytes and is passed to a kernel as a parameter. Host code; thread-safe. Only for sources that are built with CUDA.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll {

// Describes a dense row-major matrix of bf16 or f16 elements that is copied in boxes (rectangles) of 64 columns and `box_rows` rows with
// the swizzle of wgmma.cuh. Requires: `data` aligned to 16 bytes, columns a multiple of 8, at most 256 box rows. Errors: kDevice if the
// driver does not have the function or it fails.
CUtensorMap tensor_map(const void* data, DType dtype, int64_t rows, int64_t columns, int box_rows);

}  // namespace plimsoll
