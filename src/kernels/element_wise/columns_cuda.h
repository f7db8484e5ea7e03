// The kernels of columns.h on an NVIDIA GPU. add_cuda.h states the rules for all CUDA kernels. Host-only
// header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/columns.h"

namespace plimsoll {

void columns_fwd_cuda(const ColumnsFwdArgs& args, CudaStream stream);
void add_columns_fwd_cuda(const AddColumnsFwdArgs& args, CudaStream stream);

}  // namespace plimsoll
