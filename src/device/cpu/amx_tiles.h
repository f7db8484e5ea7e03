// Shared code of kernels that use AMX tiles: configuring the tiles, and the shuffles that arrange operands for them. The inline part is
// only for kernels that run after AMX was detected; it uses intrinsics, because Highway does not support tiles. Thread-safe: pure except
// for the tiles of the calling thread.
#pragma once

#include <immintrin.h>

#include <cstdint>

// Disables a warning of GCC 12 about operands that its own AVX-512 intrinsics leave undefined on purpose (GCC bug 105593). The
// pragma applies to the rest of every file that includes this header, because the warning appears where the intrinsics are
// inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define PLIMSOLL_AMX [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")]]
#define PLIMSOLL_AMX_INLINE PLIMSOLL_AMX [[gnu::always_inline]] inline

namespace plimsoll {

// A tile is a register of 16 rows of 64 bytes. For the product C += A B it contains 16 x 32 bf16 of A, 16 pairs of rows by 16
// columns of B in bf16, or 16 x 16 fp32 of C.
inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileTerms = 32;
inline constexpr int64_t kTileBytes = 1024;
inline constexpr int64_t kTilePitch = 64;

// configure_amx_tiles() gives the eight tiles of the calling thread their full size, until release_amx_tiles() is called. In
// between, no other code, such as oneDNN, may configure the tiles. Requires: may_use_amx_tiles().
void configure_amx_tiles();
void release_amx_tiles();

// Makes the compiler write all earlier stores to memory before the tile loads that follow. Some compilers implement tile loads as assembly
// that does not declare the memory that it reads.
inline void memory_is_read(const void* address) {
  __asm__ volatile("" : : "r"(address) : "memory");
}

PLIMSOLL_AMX_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

// Transposes a matrix of 16 x 16 32-bit words.
PLIMSOLL_AMX_INLINE void transpose_words(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // After these two of four rounds, the 128-bit block b of r[4 i + j] contains column 4 b + j of rows 4 i to 4 i + 3.
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
    t[12 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
  }
  for (int j = 0; j < 4; ++j) {
    r[j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88);
    r[8 + j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
    r[4 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
    r[12 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
  }
}

}  // namespace plimsoll
