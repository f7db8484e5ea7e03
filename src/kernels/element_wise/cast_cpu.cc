#include "kernels/element_wise/cast.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/cast_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE2
// SSE2 and the scalar target have no instructions for binary16, so elements are converted one by one.
template <class D>
HWY_INLINE hn::Vec<D> load_any(D d, const F16* from) {
  alignas(64) float lanes[hn::MaxLanes(D())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f16_to_f32(from[i].bits);
  return hn::Load(d, lanes);
}
template <class D>
HWY_INLINE void store_any(D d, hn::Vec<D> value, F16* to) {
  alignas(64) float lanes[hn::MaxLanes(D())];
  hn::Store(value, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i].bits = f32_to_f16(lanes[i]);
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load_any(D d, const F16* from) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}
template <class D>
HWY_INLINE void store_any([[maybe_unused]] D d, hn::Vec<D> value, F16* to) {
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, value), d16, reinterpret_cast<hwy::float16_t*>(to));
}
#endif
template <class D>
HWY_INLINE hn::Vec<D> load_any(D d, const double* from) {
#if HWY_TARGET == HWY_SCALAR
  // The scalar conversion of Highway is not used, because it turns an overflow into the largest finite number.
  return hn::Set(d, static_cast<float>(*from));
#else
  const hn::Rebind<double, D> d64;
  return hn::DemoteTo(d, hn::LoadU(d64, from));
#endif
}
template <class D>
HWY_INLINE void store_any(D /*d*/, hn::Vec<D> value, double* to) {
  const hn::Rebind<double, D> d64;
  hn::StoreU(hn::PromoteTo(d64, value), d64, to);
}
template <class D, class T>
HWY_INLINE hn::Vec<D> load_any(D d, const T* from) {
  return load_f32(d, from);
}
template <class D, class T>
HWY_INLINE void store_any(D d, hn::Vec<D> value, T* to) {
  store_f32(d, value, to);
}

// Converts whole vectors through fp32. If one of the types is double, all vectors have as many lanes as a vector of doubles.
template <class From, class To>
void cast_of(const From* x, To* y, int64_t n) {
  using Wide = hn::Rebind<float, hn::ScalableTag<double>>;
  using D = std::conditional_t<sizeof(From) == 8 || sizeof(To) == 8, Wide, F32Tag>;
  for_each_chunk(n, [&](int64_t begin, int64_t end) HWY_ATTR {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) store_any(d, load_any(d, x + i), y + i);
    if (i == end) return;
    alignas(64) From last[hn::MaxLanes(D())] = {};
    alignas(64) To converted[hn::MaxLanes(D())];
    std::memcpy(last, x + i, static_cast<size_t>(end - i) * sizeof(From));
    store_any(d, load_any(d, last), converted);
    std::memcpy(y + i, converted, static_cast<size_t>(end - i) * sizeof(To));
  });
}

template <class Body>
void with_floating_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF64:
      return body(double{});
    case DType::kF32:
      return body(float{});
    case DType::kBF16:
      return body(BF16{});
    case DType::kF16:
      return body(F16{});
    default:
      PLIMSOLL_CHECK(false, "cast_fwd_cpu supports f64, f32, bf16 and f16, not {}", dtype_name(dtype));
  }
}

void cast_any(const CastFwdArgs& args) {
  with_floating_type(args.x.dtype, [&](auto from) HWY_ATTR {
    with_floating_type(args.y.dtype, [&](auto to) HWY_ATTR {
      using From = decltype(from);
      using To = decltype(to);
      // Tensors of equal types need no conversion: the caller has already copied their bytes.
      if constexpr (!std::is_same_v<From, To>) cast_of(elements<From>(args.x), elements<To>(args.y), args.n);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(cast_any);

void cast_fwd_cpu(const CastFwdArgs& args) {
  PLIMSOLL_CHECK(args.x && args.y, "cast_fwd_cpu needs both operands, but one is missing");
  if (args.x.dtype != args.y.dtype) return HWY_DYNAMIC_DISPATCH(cast_any)(args);
  if (args.y.data == args.x.data) return;
  const int64_t bytes = dtype_bytes(args.x.dtype);
  for_each_chunk(args.n, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(args.y.data) + begin * bytes,
                static_cast<const char*>(args.x.data) + begin * bytes,
                static_cast<size_t>((end - begin) * bytes));
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
