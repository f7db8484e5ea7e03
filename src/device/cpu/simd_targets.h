// Selects the instruction sets for which the Highway kernels are compiled: the baseline of x86-64 (Highway's SSE2, or scalar code in
// versions that lack it), AVX2 and AVX-512. Must be included before any Highway header. Other instruction sets do not speed up these
// kernels, and each would cost another compilation. In Highway, later instruction sets have lower bits, so in every version of Highway
// HWY_AVX3 - 1 is the mask of all sets that are later than AVX3.
#pragma once

#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSE4 | HWY_SSSE3)
