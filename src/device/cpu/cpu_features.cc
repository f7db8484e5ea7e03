#include "device/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

namespace plimsoll {
namespace {

#if defined(__x86_64__)
struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

// Returns the result of the CPUID instruction for this leaf, or zeros if the CPU does not have the leaf.
Registers cpuid(uint32_t leaf) {
  Registers r;
  if (__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool has_bits(uint32_t value, uint32_t mask) {
  return (value & mask) == mask;
}
constexpr uint32_t bit(int n) {
  return uint32_t{1} << n;
}

// Asks the operating system for permission to use the data of AMX tiles, which is component 18 of the register state (Linux,
// Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM). Returns true if it is granted.
bool grants_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Detects the instruction set level. __builtin_cpu_supports() also checks that the operating system saves the registers. In clang 14
// it does not accept the names of F16C and AMX, so these two are read by CPUID (Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 2A). CPUID is sufficient for them: F16C uses the registers of AVX, and the operating system grants AMX tiles
// only if it saves them.
CpuIsa detect() {
  __builtin_cpu_init();
  const bool f16c = has_bits(cpuid(1).c, bit(29));
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !f16c) return CpuIsa::kBaseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (!avx512) return CpuIsa::kAvx2;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuIsa::kAvx512;
  const bool amx = has_bits(cpuid(7).d, bit(22) | bit(24));  // the CPUID bits of AMX-BF16 and AMX-TILE
  return amx && grants_tiles() ? CpuIsa::kAmx : CpuIsa::kAvx512Bf16;
}
#else
CpuIsa detect() {
  return CpuIsa::kBaseline;
}
#endif

}  // namespace

CpuIsa cpu_isa() {
  static const CpuIsa isa = detect();
  return isa;
}

bool may_use_amx_tiles() {
  return cpu_isa() >= CpuIsa::kAmx;
}

}  // namespace plimsoll
