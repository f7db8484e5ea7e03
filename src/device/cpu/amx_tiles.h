// What kernels on AMX tiles share: setting the tiles up, and the shuffles that bring operands into them. The
// inline part is for such kernels alone, which run only where AMX was found; Highway has no tiles.
// Thread-safe: pure but for the calling thread's tiles.
#pragma once

#include <immintrin.h>

#include <cstdint>

// GCC 12 warns, where they are inlined, of the undefined operands that its own intrinsics make on purpose
// (its bug 105593). So this holds to the end of a file that includes this one.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define PLIMSOLL_AMX [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")]]
#define PLIMSOLL_AMX_INLINE PLIMSOLL_AMX [[gnu::always_inline]] inline

namespace plimsoll {

// A tile is 16 rows of 64 bytes: 16 x 32 bf16 of A, 16 pairs of terms x 16 columns of B, 16 x 16 fp32 of C.
inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileTerms = 32;
inline constexpr int64_t kTileBytes = 1024;
inline constexpr int64_t kTilePitch = 64;

// Between the two calls the calling thread's eight tiles are whole ones. Nothing in between may use tiles in
// another way, as the library of the linear layers' products does. Requires: may_use_amx_tiles().
void configure_amx_tiles();
void release_amx_tiles();

// Some compilers' tile loads are assembly that does not say what it reads: everything written before is in
// memory after this.
inline void memory_is_read(const void* address) {
  __asm__ volatile("" : : "r"(address) : "memory");
}

PLIMSOLL_AMX_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

// The transpose of 16 rows of 16 words.
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
  // r[4 i + j] holds, in its 128-bit block b, column 4 b + j of rows 4 i .. 4 i + 3.
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
