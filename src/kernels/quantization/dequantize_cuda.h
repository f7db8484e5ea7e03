// dequantize of quantization.h on an NVIDIA GPU; kernels/element_wise/add_cuda.h says what holds for all CUDA
// kernels. Host-only header. The same roundings as the reference, so the same bits.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {

void dequantize_cuda(const DequantizeArgs& args, CudaStream stream);

}  // namespace plimsoll
