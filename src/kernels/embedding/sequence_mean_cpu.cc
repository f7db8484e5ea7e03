#include "kernels/embedding/sequence_mean.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/sequence_mean_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/parallel.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

// The number of columns that one task sums.
constexpr int64_t kMeanColumns = 512;

template <class X, class Y>
void sequence_mean_fwd_of(const SequenceMeanFwdArgs& args) {
  const X* x = elements<X>(args.x);
  Y* y = elements<Y>(args.y);
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const int64_t groups = (args.C + kMeanColumns - 1) / kMeanColumns;
  parallel_for(args.B * groups, [&](int64_t task, int) HWY_ATTR {
    const F32Tag d;
    const int64_t b = task / groups, begin = task % groups * kMeanColumns;
    const int64_t width = std::min(args.C - begin, kMeanColumns);
    alignas(64) float sums[kMeanColumns] = {};
    for (int64_t t = cu_seqlens[b]; t < cu_seqlens[b + 1]; ++t) {
      const X* row = x + t * args.C + begin;
      for_each_vector(d, 0, width, [&](auto access, int64_t c) HWY_ATTR {
        access.store(d, hn::Add(access.load(d, sums + c), access.load(d, row + c)), sums + c);
      });
    }
    const F32Vec rows = hn::Set(d, static_cast<float>(std::max(1, cu_seqlens[b + 1] - cu_seqlens[b])));
    for_each_vector(d, 0, width, [&](auto access, int64_t c) HWY_ATTR {
      access.store(d, hn::Div(access.load(d, sums + c), rows), y + b * args.C + begin + c);
    });
  });
}

template <class X, class Y>
void sequence_mean_bwd_of(const SequenceMeanBwdArgs& args) {
  const Y* d_y = elements<Y>(args.d_y);
  X* d_x = elements<X>(args.d_x);
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  constexpr int64_t kRowsPerTask = 64;
  parallel_for((args.T + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) HWY_ATTR {
    const F32Tag d;
    const int64_t first = task * kRowsPerTask, end = std::min(args.T, first + kRowsPerTask);
    // Finds the last sequence that starts at the row or before it. If several sequences start at the same row, all but the last of them are
    // empty.
    int64_t b = std::upper_bound(cu_seqlens, cu_seqlens + args.B, first) - cu_seqlens - 1;
    for (int64_t t = first; t < end; ++t) {
      while (b + 1 < args.B && t >= cu_seqlens[b + 1]) ++b;
      const bool is_used = t < cu_seqlens[args.B];
      const F32Vec rows = hn::Set(d, is_used ? static_cast<float>(cu_seqlens[b + 1] - cu_seqlens[b]) : 1.0f);
      for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
        const F32Vec g = is_used ? access.load(d, d_y + b * args.C + c) : hn::Zero(d);
        access.store(d, hn::Div(g, rows), d_x + t * args.C + c);
      });
    }
  });
}

void sequence_mean_fwd_any(const SequenceMeanFwdArgs& args) {
  with_fast_type(args.x.dtype, [&](auto x) HWY_ATTR {
    with_fast_type(args.y.dtype,
                   [&](auto y) HWY_ATTR { sequence_mean_fwd_of<decltype(x), decltype(y)>(args); });
  });
}

void sequence_mean_bwd_any(const SequenceMeanBwdArgs& args) {
  with_fast_type(args.d_x.dtype, [&](auto x) HWY_ATTR {
    with_fast_type(args.d_y.dtype,
                   [&](auto y) HWY_ATTR { sequence_mean_bwd_of<decltype(x), decltype(y)>(args); });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(sequence_mean_fwd_any);
HWY_EXPORT(sequence_mean_bwd_any);

namespace {

void check_mean_operands(const char* kernel, ConstView from, ConstView to, ConstView cu_seqlens) {
  fast_type_of(kernel, {{"input", from}});
  fast_type_of(kernel, {{"output", to}});
  PLIMSOLL_CHECK(cu_seqlens && cu_seqlens.dtype == DType::kI32, "{}: cu_seqlens must be present and i32",
                 kernel);
}

}  // namespace

void sequence_mean_fwd_cpu(const SequenceMeanFwdArgs& args) {
  check_mean_operands("sequence_mean_fwd_cpu", args.x, args.y, args.cu_seqlens);
  HWY_DYNAMIC_DISPATCH(sequence_mean_fwd_any)(args);
}

void sequence_mean_bwd_cpu(const SequenceMeanBwdArgs& args) {
  check_mean_operands("sequence_mean_bwd_cpu", args.d_y, args.d_x, args.cu_seqlens);
  HWY_DYNAMIC_DISPATCH(sequence_mean_bwd_any)(args);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
