#include "kernels/optimizer/catalog.h"

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {

int64_t global_norm_cuda_scratch(const Problem&) {
  return kGlobalNormCudaScratchBytes;
}

}  // namespace plimsoll::catalog_rows
