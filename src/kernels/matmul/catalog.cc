#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {

Support matmul_cpu_onednn_support(const Problem& problem) {
  if (problem.dtype == DType::kBF16 && !has_bf16_products(problem.isa)) {
    return {false, "bf16 needs a CPU with AVX512_BF16 or AMX; this one has " +
                       std::string(cpu_isa_name(problem.isa))};
  }
  return {};
}

int64_t matmul_cpu_onednn_scratch(const Problem&) {
  return 0;
}

}  // namespace plimsoll::catalog_rows
