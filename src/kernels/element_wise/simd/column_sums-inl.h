// The second step of every reduction over rows: adds up the partial sums of the row blocks. Compiled once per instruction set
// through hwy/foreach_target.h. Thread-safe on distinct outputs. Owns no memory.
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
#include <initializer_list>

#include "base/view.h"
#include "device/cpu/parallel.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns the address of the partial sums of block number `block` for quantity number `which`. A kernel may sum several quantities, each of
// which has an array [num_blocks, stride].
HWY_INLINE float* partial_sums(const View& scratch, const RowBlocks& blocks, int64_t C, int64_t which,
                               int64_t block) {
  return static_cast<float*>(scratch.data) + (which * blocks.num_blocks + block) * partial_row_stride(C);
}

HWY_INLINE void zero_partial_sums(float* sums, int64_t C) {
  std::memset(sums, 0, static_cast<size_t>(C) * sizeof(float));
}

// The number of columns that one task adds. A task has about as much work as a chunk of an element-wise kernel, and consists of whole
// vectors.
inline constexpr int64_t kColumnsPerTask = 256;

// Adds the partial sums of columns [begin, end) of one quantity. The outer loop is over the blocks, so that partial sums are read
// sequentially from the caches of other cores. The additions of a column are in the order of the blocks, as they would be if the outer loop
// were over the columns.
inline void add_up_columns(const View& scratch, const RowBlocks& blocks, int64_t C, int64_t which,
                           int64_t begin, int64_t end, const View& out, Accumulate accumulate) {
  const F32Tag d;
  alignas(64) float totals[kColumnsPerTask] = {};
  for (int64_t block = 0; block < blocks.num_blocks; ++block) {
    const float* sums = partial_sums(scratch, blocks, C, which, block) + begin;
    for_each_vector(d, 0, end - begin, [&](auto access, int64_t c) HWY_ATTR {
      access.store(d, hn::Add(access.load(d, totals + c), access.load(d, sums + c)), totals + c);
    });
  }
  const bool add = accumulate == Accumulate::kAdd;
  if (out.dtype == DType::kF32) {
    float* to = static_cast<float*>(out.data) + begin;
    for (int64_t c = 0; c < end - begin; ++c) to[c] = add ? to[c] + totals[c] : totals[c];
    return;
  }
  for (int64_t c = begin; c < end; ++c) {
    const double total = static_cast<double>(totals[c - begin]);
    out.store(c, add ? out.load(c) + total : total);
  }
}

// Computes, for each quantity `which`, outs[which][c] = (or +=) the sum of the partial sums of column c in the order of the blocks. Skips
// null outputs. Columns are independent, so their distribution over threads does not change the results.
inline void add_up_blocks(const View& scratch, const RowBlocks& blocks, int64_t C,
                          std::initializer_list<View> outs, Accumulate accumulate) {
  const int64_t num_outs = static_cast<int64_t>(outs.size());
  const int64_t tasks_per_out = (C + kColumnsPerTask - 1) / kColumnsPerTask;
  const auto run = [&](int64_t task) {
    const int64_t which = task / tasks_per_out;
    const View& out = outs.begin()[which];
    if (!out) return;
    const int64_t begin = task % tasks_per_out * kColumnsPerTask;
    add_up_columns(scratch, blocks, C, which, begin, std::min(C, begin + kColumnsPerTask), out, accumulate);
  };
  // A small sum runs on the calling thread, which finishes it before other threads could be woken.
  if (num_outs * C * blocks.num_blocks < 16384) {
    for (int64_t task = 0; task < num_outs * tasks_per_out; ++task) run(task);
  } else {
    parallel_for(num_outs * tasks_per_out, [&](int64_t task, int) { run(task); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_COLUMN_SUMS_INL_H_
