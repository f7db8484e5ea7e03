// Operations of the normalization kernels on one row in fp32. The functions are compiled once per instruction set, in source files that
// Highway's foreach_target.h includes repeatedly. Thread-safe: pure functions on their operands.
#if defined(PLIMSOLL_KERNELS_NORM_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_NORM_ROW_INL_H_
#undef PLIMSOLL_KERNELS_NORM_ROW_INL_H_
#else
#define PLIMSOLL_KERNELS_NORM_ROW_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Calls body(begin, end) for each group of kColumnGroup columns.
template <class Body>
HWY_INLINE void for_each_column_group(int64_t C, const Body& body) {
  for (int64_t begin = 0; begin < C; begin += kColumnGroup) body(begin, std::min(C, begin + kColumnGroup));
}

// Returns rstd = 1 / sqrt(variance + eps) of an fp32 row, given its mean.
HWY_INLINE float row_rstd(const float* s, int64_t C, float mean, double eps) {
  const F32Tag d;
  const F32Vec means = hn::Set(d, mean);
  F32Vec total = hn::Zero(d);
  for_each_column_group(C, [&](int64_t begin, int64_t end) HWY_ATTR {
    GroupSum sum = zero_group_sum();
    for_each_vector_of_group(begin, end, [&](auto access, int64_t c, auto part) HWY_ATTR {
      const F32Vec centered = access.keep(d, hn::Sub(access.load(d, s + c), means));
      part.of(sum) = hn::MulAdd(centered, centered, part.of(sum));
    });
    total = hn::Add(total, group_total(sum));
  });
  const float variance = lanes_total(total) / static_cast<float>(C);
  return 1.0f / std::sqrt(variance + static_cast<float>(eps));
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_NORM_ROW_INL_H_
