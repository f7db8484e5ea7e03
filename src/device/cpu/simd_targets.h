// Selects the instruction sets for which the Highway kernels are compiled: the baseline of x86-64 (Highway's SSE2, or scalar code in
// versions that lack it), AVX2 and AVX-512. Must be included before any Highway header. Other instruction sets do not speed up these
// kernels, and each would cost another compilation. In Highway, later instruction sets have lower bits, so the first mask covers all sets
// beyond AVX3 in every version.
#pragma once

#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSE4 | HWY_SSSE3)
