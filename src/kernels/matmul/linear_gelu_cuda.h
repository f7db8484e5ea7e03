// linear_gelu on an NVIDIA GPU. Where linear_takes_own_product() says so (matmul_catalog.h), by a kernel of
// ours whose epilogue is the activation; otherwise, for few rows or in a build without code for compute
// capability 9.0, by cuBLASLt's product and bias_gelu_fwd_cuda in its place. Contract: linear_gelu.h; the
// views hold device memory, x, w and y aligned to 16 bytes.
//
// Thread-safety and errors: as prepare_matmul_cuda(). It allocates no device memory: the library's workspace
// is `scratch`.
#pragma once

#include <memory>

#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

std::unique_ptr<CudaMatmul> prepare_linear_gelu_cuda(const LinearProblem& problem);
// The first way whatever the number of rows. Requires: linear_sizes_fit(). run() has kInternal in a
// build without code for compute capability 9.0.
std::unique_ptr<CudaMatmul> prepare_own_linear_gelu_cuda(const LinearProblem& problem);

}  // namespace plimsoll
