#include "kernels/layer_norm/normalize.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/normalize_cpu.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/vectors-inl.h"
#include "kernels/layer_norm/norm_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

// In the functions below, the last pass over a row also prefetches the next row, so that memory is read while a row is computed. For the
// last row, the prefetch has no effect.

// Copies a row to the fp32 array s and returns its mean.
template <class T>
HWY_INLINE float load_row(const T* x, int64_t C, float* s) {
  const F32Tag d;
  F32Vec total = hn::Zero(d);
  for_each_column_group(C, [&](int64_t begin, int64_t end) HWY_ATTR {
    GroupSum sum = zero_group_sum();
    for_each_vector_of_group(begin, end, [&](auto access, int64_t c, auto part) HWY_ATTR {
      const F32Vec value = access.load(d, x + c);
      access.store(d, value, s + c);
      part.of(sum) = hn::Add(part.of(sum), value);
    });
    total = hn::Add(total, group_total(sum));
  });
  return lanes_total(total) / static_cast<float>(C);
}

template <class T>
void normalize_fwd_of(const NormalizeFwdArgs& args) {
  const T* x = elements<T>(args.x);
  T* x_hat = elements<T>(args.x_hat);
  float* rstd = elements<float>(args.rstd);
  for_each_row(args.T, args.C, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.C;
    alignas(64) float s[kMaxNormColumns];
    const float mean = load_row(x + row, args.C, s);
    rstd[t] = row_rstd(s, args.C, mean, args.eps);
    const F32Vec means = hn::Set(d, mean);
    const F32Vec rstds = hn::Set(d, rstd[t]);
    for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
      hwy::Prefetch(x + row + args.C + c);
      access.store(d, hn::Mul(hn::Sub(access.load(d, s + c), means), rstds), x_hat + row + c);
    });
  });
}

struct GradientMeans {
  float g, g_x_hat;
};
template <class T>
HWY_INLINE GradientMeans gradient_means(const T* g, const T* x_hat, int64_t C) {
  const F32Tag d;
  F32Vec total = hn::Zero(d);
  F32Vec total_product = hn::Zero(d);
  for_each_column_group(C, [&](int64_t begin, int64_t end) HWY_ATTR {
    GroupSum sum = zero_group_sum();
    GroupSum product = zero_group_sum();
    for_each_vector_of_group(begin, end, [&](auto access, int64_t c, auto part) HWY_ATTR {
      const F32Vec value = access.load(d, g + c);
      part.of(sum) = hn::Add(part.of(sum), value);
      part.of(product) = hn::MulAdd(value, access.load(d, x_hat + c), part.of(product));
    });
    total = hn::Add(total, group_total(sum));
    total_product = hn::Add(total_product, group_total(product));
  });
  return {lanes_total(total) / static_cast<float>(C), lanes_total(total_product) / static_cast<float>(C)};
}

template <class T>
void normalize_bwd_of(const NormalizeBwdArgs& args) {
  const T* g = elements<T>(args.d_x_hat);
  const T* x_hat = elements<T>(args.x_hat);
  const float* rstd = elements<float>(args.rstd);
  T* d_x = elements<T>(args.d_x);
  for_each_row(args.T, args.C, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.C;
    const GradientMeans means = gradient_means(g + row, x_hat + row, args.C);
    const F32Vec mean = hn::Set(d, means.g);
    const F32Vec mean_product = hn::Set(d, means.g_x_hat);
    const F32Vec rstds = hn::Set(d, rstd[t]);
    for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
      hwy::Prefetch(g + row + args.C + c);
      hwy::Prefetch(x_hat + row + args.C + c);
      const F32Vec centered = hn::Sub(access.load(d, g + row + c), mean);
      const F32Vec result = hn::NegMulAdd(access.load(d, x_hat + row + c), mean_product, centered);
      access.store(d, hn::Mul(rstds, result), d_x + row + c);
    });
  });
}

void normalize_fwd_any(const NormalizeFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { normalize_fwd_of<decltype(type)>(args); });
}
void normalize_bwd_any(const NormalizeBwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { normalize_bwd_of<decltype(type)>(args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(normalize_fwd_any);
HWY_EXPORT(normalize_bwd_any);

namespace {
void check_sizes(const char* kernel, int64_t C, const ConstView& rstd) {
  PLIMSOLL_CHECK(C >= 1 && C <= kMaxNormColumns, "{}: rows must have 1 to {} columns, but have {}", kernel,
                 kMaxNormColumns, C);
  PLIMSOLL_CHECK(rstd && rstd.dtype == DType::kF32, "{}: rstd must be present and f32", kernel);
}
}  // namespace

void normalize_fwd_cpu(const NormalizeFwdArgs& args) {
  const DType dtype = fast_type_of("normalize_fwd_cpu", {{"x", args.x}, {"x_hat", args.x_hat}});
  check_sizes("normalize_fwd_cpu", args.C, args.rstd);
  HWY_DYNAMIC_DISPATCH(normalize_fwd_any)(args, dtype);
}

void normalize_bwd_cpu(const NormalizeBwdArgs& args) {
  const DType dtype = fast_type_of("normalize_bwd_cpu",
                                   {{"d_x_hat", args.d_x_hat}, {"x_hat", args.x_hat}, {"d_x", args.d_x}});
  check_sizes("normalize_bwd_cpu", args.C, args.rstd);
  HWY_DYNAMIC_DISPATCH(normalize_bwd_any)(args, dtype);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
