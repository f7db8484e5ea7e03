// The second half of every reduction over rows: partial sums of row blocks become one row; per target,
// included through hwy/foreach_target.h. Thread-safe on distinct outputs. Ownership: none.
#if defined(PLIMSOLL_KERNELS_COLUMN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_COLUMN_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_COLUMN_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_COLUMN_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/view.h"
#include "device/cpu/parallel.h"
#include "kernels/element_wise/catalog.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// The partial sums of one quantity: row `block` of [num_blocks, stride]. `which` counts the quantities of a
// kernel.
HWY_INLINE float* partial_sums(const View& scratch, const RowBlocks& blocks, int64_t C, int64_t which,
                               int64_t block) {
  return static_cast<float*>(scratch.data) + (which * blocks.num_blocks + block) * partial_row_stride(C);
}

HWY_INLINE void zero_partial_sums(float* sums, int64_t C) {
  std::memset(sums, 0, static_cast<size_t>(C) * sizeof(float));
}

// out[c] (+)= sum of the blocks' partial sums, in the order of the blocks. Does nothing if out is null.
// Columns are independent, so how they are spread over threads changes nothing.
inline void add_up_blocks(const View& scratch, const RowBlocks& blocks, int64_t C, int64_t which,
                          const View& out, Accumulate accumulate) {
  if (!out) return;
  constexpr int64_t kColumnsPerTask = 1024;
  parallel_for((C + kColumnsPerTask - 1) / kColumnsPerTask, [&](int64_t task, int) {
    const F32Tag d;
    const int64_t begin = task * kColumnsPerTask;
    const int64_t end = std::min(C, begin + kColumnsPerTask);
    const bool add = accumulate == Accumulate::kAdd;
    const bool is_f32 = out.dtype == DType::kF32;
    alignas(64) float totals[kColumnsPerTask];
    for_each_vector(d, begin, end, [&](auto access, int64_t c) HWY_ATTR {
      F32Vec sum = hn::Zero(d);
      for (int64_t block = 0; block < blocks.num_blocks; ++block) {
        sum = hn::Add(sum, access.load(d, partial_sums(scratch, blocks, C, which, block) + c));
      }
      if (is_f32) {
        float* to = static_cast<float*>(out.data) + c;
        access.store(d, add ? hn::Add(access.load(d, to), sum) : sum, to);
      } else {
        access.store(d, sum, totals + (c - begin));
      }
    });
    if (is_f32) return;
    for (int64_t c = begin; c < end; ++c) {
      const double total = static_cast<double>(totals[c - begin]);
      out.store(c, add ? out.load(c) + total : total);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_COLUMN_SUMS_INL_H_
