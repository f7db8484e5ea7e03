// The instruction sets that kernels and plans distinguish on a CPU: pure data. device/cpu/cpu_features.h
// detects the instruction set of this machine; a plan for another machine takes the level from the
// description of that machine. Thread-safe: values only.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

// The levels are ordered: each includes all levels below it.
enum class CpuIsa : uint8_t {
  kBaseline,    // SSE2 on x86-64; on other architectures what every CPU supports
  kAvx2,        // AVX2, FMA and F16C
  kAvx512,      // the extensions F, BW, CD, DQ and VL of AVX-512
  kAvx512Bf16,  // kAvx512 and AVX512_BF16: products of bf16 pairs summed in fp32
  kAmx,         // kAvx512Bf16 and AMX tiles with bf16
};

constexpr std::string_view cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return "baseline";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Bf16:
      return "avx512_bf16";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "?";
}

// Returns true if matrix products of bf16 run in hardware.
constexpr bool has_bf16_products(CpuIsa isa) {
  return isa >= CpuIsa::kAvx512Bf16;
}

}  // namespace plimsoll
