// SIMD code that the CPU kernels of losses share: it loads and stores whole and partial vectors of a row,
// and computes the maximum of a row and the sum of its exponentials. Compiled once per instruction set,
// inside Highway's target namespaces; included only by *_cpu.cc files.
#if defined(PLIMSOLL_KERNELS_LOSS_ROW_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_LOSS_ROW_EXP_INL_H_
#undef PLIMSOLL_KERNELS_LOSS_ROW_EXP_INL_H_
#else
#define PLIMSOLL_KERNELS_LOSS_ROW_EXP_INL_H_
#endif

#include <hwy/highway.h>
// The headers of Highway must be included before those of its math functions.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/loss/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using DoubleTag = hn::ScalableTag<double>;
// A vector of floats with as many lanes as a vector of doubles.
using HalfFloatTag = hn::Rebind<float, DoubleTag>;
using FloatVec = hn::Vec<FloatTag>;
using DoubleVec = hn::Vec<DoubleTag>;

// Loads the first n values of x and sets the other lanes to `rest`. Never reads past x[n - 1]. Requires: n is at most the number of lanes.
template <typename Tag>
HWY_INLINE hn::Vec<Tag> load_first(Tag tag, const float* x, int64_t n, float rest) {
  HWY_ALIGN float lanes[hn::MaxLanes(Tag())];
  hn::Store(hn::Set(tag, rest), tag, lanes);
  std::memcpy(lanes, x, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(tag, lanes);
}

template <typename Tag>
HWY_INLINE void store_first(Tag tag, hn::Vec<Tag> value, float* y, int64_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(Tag())];
  hn::Store(value, tag, lanes);
  std::memcpy(y, lanes, static_cast<size_t>(n) * sizeof(float));
}

HWY_INLINE int64_t float_lanes() {
  return static_cast<int64_t>(hn::Lanes(FloatTag()));
}

// Returns exp(x). Returns NaN for NaN, unlike Exp of Highway, which returns 0.
HWY_INLINE FloatVec exp_keeping_nan(FloatVec x) {
  const FloatTag tag;
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(tag, x));
}

// Returns the maximum of a row. If the row contains a NaN, the result is unspecified; the sum of exponentials
// then gives NaN.
HWY_INLINE float row_max(const float* x, int64_t n) {
  const FloatTag tag;
  const int64_t lanes = float_lanes();
  FloatVec max = hn::Set(tag, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) max = hn::Max(max, hn::LoadU(tag, x + i));
  if (i < n) {
    max = hn::Max(max, load_first(tag, x + i, n - i, -std::numeric_limits<float>::infinity()));
  }
  return hn::GetLane(hn::MaxOfLanes(tag, max));
}

// Returns the sum of exp(x - max) over a row.
HWY_INLINE double row_sum_exp(const float* x, int64_t n, float max) {
  const FloatTag tag;
  const int64_t lanes = float_lanes();
  const FloatVec max_v = hn::Set(tag, max);
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kSoftmaxSumBlock) {
    const int64_t end = std::min(n, begin + kSoftmaxSumBlock);
    FloatVec sum = hn::Zero(tag);
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      sum = hn::Add(sum, exp_keeping_nan(hn::Sub(hn::LoadU(tag, x + i), max_v)));
    }
    if (i < end) {
      // Lanes after the end of the row are set to -inf, whose exponential adds nothing. If the maximum is -inf as well, the result in these
      // lanes is NaN, but then so is the result of the elements of the row.
      const FloatVec tail = load_first(tag, x + i, end - i, -std::numeric_limits<float>::infinity());
      sum = hn::Add(sum, exp_keeping_nan(hn::Sub(tail, max_v)));
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(tag, sum)));
  }
  return total;
}

// Computes y = f(x) for the elements of a row, one vector at a time, possibly in place. In the last vector, lanes past the end are 0 and
// are not stored.
template <typename Function>
HWY_INLINE void map_row(const float* x, float* y, int64_t n, Function&& f) {
  const FloatTag tag;
  const int64_t lanes = float_lanes();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(tag, x + i)), tag, y + i);
  if (i < n) store_first(tag, f(load_first(tag, x + i, n - i, 0.0f)), y + i, n - i);
}
template <typename Function>
HWY_INLINE void map_rows(const float* a, const float* b, float* y, int64_t n, Function&& f) {
  const FloatTag tag;
  const int64_t lanes = float_lanes();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(f(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i)), tag, y + i);
  }
  if (i < n) {
    const FloatVec result = f(load_first(tag, a + i, n - i, 0.0f), load_first(tag, b + i, n - i, 0.0f));
    store_first(tag, result, y + i, n - i);
  }
}

// Returns the sum over i of f(a[i], b[i]). It is added in fp32 lanes within a block, and the sums of the blocks are added in double. Lanes
// past the end of the row add nothing.
template <typename Function>
HWY_INLINE double sum_rows(const float* a, const float* b, int64_t n, int64_t block, Function&& f) {
  const FloatTag tag;
  const int64_t lanes = float_lanes();
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(n, begin + block);
    FloatVec sum = hn::Zero(tag);
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      sum = hn::Add(sum, f(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i)));
    }
    if (i < end) {
      const FloatVec tail = f(load_first(tag, a + i, end - i, 0.0f), load_first(tag, b + i, end - i, 0.0f));
      const FloatVec real = hn::IfThenElseZero(hn::FirstN(tag, static_cast<size_t>(end - i)), tail);
      sum = hn::Add(sum, real);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(tag, sum)));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
