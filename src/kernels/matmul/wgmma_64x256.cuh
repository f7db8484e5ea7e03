// One warpgroup product in PTX: 64 rows by 256 columns over 16 terms (wgmma.cuh). Device code only.
//
// Layout of the accumulators of thread t of the warpgroup, for j < 32: elements 4 j and 4 j + 1 are columns 8 j + 2 (t % 4) and the next
// one of row 16 (t / 32) + t % 32 / 4; elements 4 j + 2 and 4 j + 3 are the same columns of the row eight below.
#pragma once

#include "base/dtype.h"
#include "kernels/matmul/wgmma.cuh"

namespace plimsoll::wgmma {

#define PLIMSOLL_EIGHT(c, i)                                                                  \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define PLIMSOLL_64(c, i)                                                                                   \
  PLIMSOLL_EIGHT(c, i + 0), PLIMSOLL_EIGHT(c, i + 8), PLIMSOLL_EIGHT(c, i + 16), PLIMSOLL_EIGHT(c, i + 24), \
      PLIMSOLL_EIGHT(c, i + 32), PLIMSOLL_EIGHT(c, i + 40), PLIMSOLL_EIGHT(c, i + 48),                      \
      PLIMSOLL_EIGHT(c, i + 56)
#define PLIMSOLL_WGMMA_64X256(type, c, a, b, adds)                                                     \
  asm volatile(                                                                                        \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                                    \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                                     \
      " {"                                                                                             \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                         \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "               \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "               \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "               \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "               \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "               \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "   \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
      "}, %128, %129, p, 1, 1, 0, 0;\n}"                                                               \
      : PLIMSOLL_64(c, 0), PLIMSOLL_64(c, 64)                                                          \
      : "l"(a), "l"(b), "r"(adds))

// Computes acc = a b^T, or acc += a b^T if `adds` is not 0, where a is 64 rows and b 256 rows of 16 columns.
template <DType kType>
__device__ inline void multiply_64x256(float (&acc)[128], uint64_t a, uint64_t b, int adds) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_WGMMA_64X256("bf16", acc, a, b, adds);
  } else {
    PLIMSOLL_WGMMA_64X256("f16", acc, a, b, adds);
  }
}
#undef PLIMSOLL_WGMMA_64X256
#undef PLIMSOLL_64
#undef PLIMSOLL_EIGHT

}  // namespace plimsoll::wgmma
