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

// Returns the registers of this CPUID leaf, or zeros if the CPU does not have the leaf.
Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool has_bits(uint64_t value, uint64_t mask) {
  return (value & mask) == mask;
}
constexpr uint64_t bit(int n) {
  return uint64_t{1} << n;
}

// Returns extended control register 0: a bit for each group of registers that the operating system saves. Requires: CPUID reports OSXSAVE.
uint64_t saved_states() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Asks the operating system to let this process use AMX tile data, register group 18 (Linux, Documentation/arch/x86/xstate.rst:
// ARCH_REQ_XCOMP_PERM). Returns true if it agrees.
bool grants_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Detects the instruction set level (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID, and volume 1, section
// 13.1).
CpuIsa detect() {
  const Registers leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
  if (!has_bits(leaf1.c, bit(27))) return CpuIsa::kBaseline;  // OSXSAVE
  const uint64_t saved = saved_states();
  const bool avx2 = has_bits(saved, bit(1) | bit(2)) &&
                    has_bits(leaf1.c, bit(12) | bit(28) | bit(29)) &&  // FMA, AVX, F16C
                    has_bits(leaf7.b, bit(5));
  if (!avx2) return CpuIsa::kBaseline;
  const bool avx512 =
      has_bits(saved, bit(5) | bit(6) | bit(7)) &&
      has_bits(leaf7.b, bit(16) | bit(17) | bit(28) | bit(30) | bit(31));  // F, DQ, CD, BW, VL
  if (!avx512) return CpuIsa::kAvx2;
  if (!has_bits(leaf7_1.a, bit(5))) return CpuIsa::kAvx512;
  const bool amx =
      has_bits(saved, bit(17) | bit(18)) && has_bits(leaf7.d, bit(22) | bit(24));  // AMX-BF16, AMX-TILE
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
