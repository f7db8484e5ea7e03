// dequantize of quantization.h on an NVIDIA GPU. kernels/element_wise/add_cuda.h states the rules for all
// CUDA kernels. Host-only header. It performs the same roundings as the reference and gives the same bits.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {

void dequantize_cuda(const DequantizeArgs& args, CudaStream stream);

}  // namespace plimsoll
