#include "hardware/cpu_target.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace plimsoll {
namespace {

// The source of the rates for AVX-512 in fp32 and for AMX in bf16. They were measured with oneDNN 2.6.3 on two cores of a
// Sapphire Rapids Xeon, for products of 1024 rows with the sizes of BERT's layers (768 x 768 to 3072 x 768): 184 to 260 GFLOP/s
// in fp32 and 700 to 2500 in bf16, for both cores together. 1467 is the mean over the products of a complete training step of
// BERT-base. On two cores of an H200's host (2026-11-23), the products of MiniLM's steps ran at 915 GFLOP/s in bf16, and on
// another pair of cores at 562, while other programs ran. The rate of a core in bf16 thus depends on the machine; `plimsoll bench
// --calibrate` measures it. An AdamW update of BERT-base moves 19 GB/s on the first machine.
constexpr std::string_view kMeasured = "oneDNN 2.6.3 on two Sapphire Rapids cores";
// The source of the other rates, which are estimates. AVX2 has vectors half as wide as AVX-512 and slightly higher clocks. SSE2
// has vectors a quarter as wide and no fused multiply-add. AVX512_BF16 multiplies twice as many elements per instruction as fp32.
constexpr std::string_view kScaled = "scaled by vector width from Sapphire Rapids";
// A thread of a Zen 4 (AMD EPYC) reaches 100 GFLOP/s in fp32 and 180 in bf16, for products of 256 to 2048
// rows with MiniLM's layer sizes. The values below for this instruction set differ from these by at most 6 %.
constexpr std::string_view kAsOnZen4 = "scaled from Sapphire Rapids, within 6 % of oneDNN on a Zen 4";

constexpr std::array kTargets{
    CpuTarget{CpuIsa::kBaseline, 12, 0, 6, 10, 20, kScaled},
    CpuTarget{CpuIsa::kAvx2, 50, 0, 25, 10, 20, kScaled},
    CpuTarget{CpuIsa::kAvx512, 95, 0, 47, 10, 20, kMeasured},
    CpuTarget{CpuIsa::kAvx512Bf16, 95, 180, 47, 10, 20, kAsOnZen4},
    CpuTarget{CpuIsa::kAmx, 95, 730, 47, 10, 20, kMeasured},
};

}  // namespace

const CpuTarget& cpu_target(CpuIsa isa) {
  const auto it =
      std::find_if(kTargets.begin(), kTargets.end(), [&](const CpuTarget& t) { return t.isa == isa; });
  PLIMSOLL_CHECK(it != kTargets.end(), "the table of CPU rates has no entry for the instruction set {}",
                 cpu_isa_name(isa));
  return *it;
}

double product_gflops(const CpuTarget& target, DType dtype, int num_threads) {
  PLIMSOLL_CHECK(num_threads >= 1, "the number of threads must be at least 1, but is {}", num_threads);
  double rate = target.f32_gflops_per_thread;
  if (dtype == DType::kF64) rate = target.f64_gflops_per_thread;
  if (dtype == DType::kBF16 && target.bf16_gflops_per_thread > 0) rate = target.bf16_gflops_per_thread;
  return rate * num_threads;
}

double memory_gb_per_s(const CpuTarget& target, int num_threads) {
  PLIMSOLL_CHECK(num_threads >= 1, "the number of threads must be at least 1, but is {}", num_threads);
  return std::min(target.memory_gb_per_s_per_thread * num_threads, target.memory_gb_per_s_at_most);
}

}  // namespace plimsoll
