// Which instruction sets the Highway kernels are compiled for: the baseline, AVX2 and AVX-512 (HWY_AVX3), no
// more, so that compile time stays low. Included before hwy/foreach_target.h by every file that uses it. Not
// for other files.
//
// Bits below HWY_AVX3 are its extensions, which these kernels have no use for. Without FMA or AVX2 a
// processor runs the baseline's plain code: right, and slow.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | ((1LL << 8) - 1))
