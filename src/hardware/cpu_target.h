// The assumed performance of a CPU without measurements: rates per thread for each instruction set. Pure
// data, identical on every machine, so a plan for another machine needs no access to it. Thread-safe:
// constants.
//
// These rates were not measured on this machine. A figure derived from them must be shown as an estimate.
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "hardware/cpu_isa.h"

namespace plimsoll {

struct CpuTarget {
  CpuIsa isa = CpuIsa::kBaseline;
  // Rates of matrix products with the sizes of a transformer's layers, in 1e9 floating-point operations per
  // second and thread.
  double f32_gflops_per_thread = 0;
  double bf16_gflops_per_thread = 0;  // 0 without hardware support
  double f64_gflops_per_thread = 0;
  // Rates of reads plus writes of streams larger than the caches, in 1e9 bytes per second, for one thread and
  // for all threads together.
  double memory_gb_per_s_per_thread = 0;
  double memory_gb_per_s_at_most = 0;
  std::string_view provenance;
};

const CpuTarget& cpu_target(CpuIsa isa);

// Returns the rate of matrix products on this number of threads. bf16 without hardware support runs at the
// rate of fp32. Requires: num_threads >= 1.
double product_gflops(const CpuTarget& target, DType dtype, int num_threads);
// Returns the memory bandwidth on this number of threads. Requires: num_threads >= 1.
double memory_gb_per_s(const CpuTarget& target, int num_threads);

}  // namespace plimsoll
