#include "kernels/loss/catalog.h"

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {

int64_t row_loss_cuda_scratch(const Problem& problem) {
  return row_loss_cuda_scratch_bytes(problem.dim("B"));
}

}  // namespace plimsoll::catalog_rows
