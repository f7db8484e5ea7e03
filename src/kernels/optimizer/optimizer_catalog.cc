#include "kernels/optimizer/optimizer_catalog.h"

namespace plimsoll::catalog_rows {

int64_t global_norm_cuda_scratch(const Problem&) {
  return kGlobalNormCudaScratchBytes;
}

int64_t adafactor_scratch_of(const AdafactorProblem& problem) {
  return problem.scratch_bytes;
}

}  // namespace plimsoll::catalog_rows
