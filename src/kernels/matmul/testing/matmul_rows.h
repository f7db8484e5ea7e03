// Functions on the entries of the kernel catalog that compute a matrix product on a CPU, so that tests and benchmarks can run each of them.
// A new implementation is tested and benchmarked as soon as cpu_products_of() knows it. Thread-safe: pure functions.
#pragma once

#include <vector>

#include "base/check.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/catalog/catalog.h"
#include "kernels/matmul/testing/asked_case.h"

namespace plimsoll::test {

// Returns the value of MatmulProblem::cpu_products for which prepare_matmul_cpu() uses this catalog entry. Errors: kInternal for an unknown
// entry.
inline CpuProducts cpu_products_of(const KernelRow& row) {
  if (row.implementation == "matmul_cpu_amx") return CpuProducts::kAmxParts;
  PLIMSOLL_CHECK(row.implementation == "matmul_cpu_onednn",
                 "matmul_rows.h does not state which matrix products the catalog row {} computes",
                 row.implementation);
  return CpuProducts::kLibrary;
}

inline std::vector<const KernelRow*> cpu_matmul_rows() {
  std::vector<const KernelRow*> rows;
  for (const KernelRow* row : kernel_rows_of("matmul")) {
    if (row->backend == Backend::kCpu) rows.push_back(row);
  }
  return rows;
}

// Returns true if the catalog entry accepts the matrix product on a CPU with this instruction set.
inline bool accepts(const KernelRow& row, MatmulProblem problem, CpuIsa isa) {
  problem.isa = isa;
  return kernel_support(row, asked_of(problem, {.num_threads = problem.num_threads, .isa = isa})).ok;
}

// Returns a copy of the problem for which prepare_matmul_cpu() uses this catalog entry, with the number of threads and the instruction set
// of this process.
inline MatmulProblem on_row(const KernelRow& row, MatmulProblem problem) {
  problem.num_threads = num_threads();
  problem.isa = cpu_isa();
  problem.cpu_products = cpu_products_of(row);
  return problem;
}

}  // namespace plimsoll::test
