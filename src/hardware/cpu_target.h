// What a CPU is taken to be able to do when no measurement of it is at hand: rates per thread by instruction
// set. Pure data, the same on every machine, so that a plan for another machine needs nothing of that
// machine. Thread-safe: constants.
//
// What it is not: a measurement of the machine at hand. Whoever shows a figure made of these rates calls it
// an estimate.
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "hardware/cpu_isa.h"

namespace plimsoll {

struct CpuTarget {
  CpuIsa isa = CpuIsa::kBaseline;
  // Matrix products of the sizes of a transformer's layers, in 1e9 floating-point operations a second and
  // thread.
  double f32_gflops_per_thread = 0;
  double bf16_gflops_per_thread = 0;  // 0 where there is no hardware for it
  double f64_gflops_per_thread = 0;
  // Reads plus writes of streams that are larger than the caches, in 1e9 bytes a second: one thread, and all
  // together.
  double memory_gb_per_s_per_thread = 0;
  double memory_gb_per_s_at_most = 0;
  std::string_view provenance;
};

const CpuTarget& cpu_target(CpuIsa isa);

// Rate of matrix products on so many threads. bf16 without hardware runs at the rate of fp32. Requires:
// num_threads >= 1.
double product_gflops(const CpuTarget& target, DType dtype, int num_threads);
// Rate of memory on so many threads. Requires: num_threads >= 1.
double memory_gb_per_s(const CpuTarget& target, int num_threads);

}  // namespace plimsoll
