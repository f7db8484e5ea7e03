// linear_norm on an NVIDIA GPU. Where linear_norm_takes_own_product() says so (matmul_catalog.h), by a kernel of
// ours whose epilogue is the norm; otherwise, for few rows or in a build without code for compute
// capability 9.0, by the product with an addend of matmul_cuda_wgmma and the norm in its place; where that
// product is the library's, by its first choice: batches that are smaller than planned are not measured.
// Contract: linear_norm.h; the views hold device memory, x, w, residual and y aligned to 16 bytes.
//
// Thread-safety and errors: as prepare_matmul_cuda(). It allocates no device memory: the library's workspace
// is the arguments' scratch.
#pragma once

#include <memory>
#include <string>

#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

class CudaLinearNorm {
 public:
  // kOwn whatever the number of rows. Requires: linear_norm_sizes_fit(). run() has kInternal in a build
  // without code for compute capability 9.0.
  enum class Way { kAsPrepared, kOwn, kApart };
  explicit CudaLinearNorm(const LinearProblem& problem, Way way = Way::kAsPrepared);

  void run(const LinearNormArgs& args, CudaStream stream) const;
  std::string description() const;

 private:
  LinearProblem problem_;
  std::unique_ptr<CudaMatmul> product_;  // none where the kernel of ours does both
};

}  // namespace plimsoll
