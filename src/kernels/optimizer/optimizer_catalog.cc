#include "kernels/optimizer/optimizer_catalog.h"

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {

int64_t global_norm_cuda_scratch(const Problem&) {
  return kGlobalNormCudaScratchBytes;
}

// "scratch" is what adafactor_scratch() says of all tensors together.
int64_t adafactor_scratch_of(const Problem& problem) {
  return problem.dim_or("scratch", 0);
}

}  // namespace plimsoll::catalog_rows
