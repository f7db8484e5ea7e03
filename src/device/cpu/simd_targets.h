// Which instruction sets the Highway kernels are compiled for: the baseline of x86-64 (Highway's SSE2; plain
// scalar code in versions that lack it), AVX2 and AVX-512. Include it before any header of Highway. The sets
// left out gain these kernels nothing and would each cost another compilation; better sets have lower bits in
// Highway, so that all of those beyond AVX3 fall under the first mask in every version.
#pragma once

#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSE4 | HWY_SSSE3)
