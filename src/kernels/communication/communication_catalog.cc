#include "kernels/communication/communication_catalog.h"

namespace plimsoll::catalog_rows {

int64_t all_reduce_cpu_scratch(const AllReduceProblem& problem) {
  return problem.small_bytes;
}

int64_t all_reduce_ref_scratch(const AllReduceProblem& problem) {
  return problem.ranks * problem.largest_bytes;
}

}  // namespace plimsoll::catalog_rows
