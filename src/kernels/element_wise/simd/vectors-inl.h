// Loads that convert to fp32, stores that round from fp32, and loops over ranges whose last vector may be
// partial. Compiled once per instruction set through hwy/foreach_target.h. Thread-safe: pure functions on
// their operands. Owns no memory.
#if defined(PLIMSOLL_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_VECTORS_INL_H_
#undef PLIMSOLL_KERNELS_VECTORS_INL_H_
#else
#define PLIMSOLL_KERNELS_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "base/view.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32Tag>;

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const BF16* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

template <class D>
HWY_INLINE void store_f32(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}
// Returns words whose upper halves are the values as bf16, rounded bit for bit like f32_to_bf16 of
// base/dtype.h.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_to_upper_half(D /*d*/, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  const auto quiet_nan = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto is_number = hn::RebindMask(du, hn::Eq(value, value));
  return hn::IfThenElse(is_number, rounded, quiet_nan);
}
template <class D>
HWY_INLINE void store_f32(D d, hn::Vec<D> value, BF16* to) {
  const hn::Rebind<uint16_t, D> d16;
  const auto upper = hn::ShiftRight<16>(rounded_to_upper_half(d, value));
  hn::StoreU(hn::TruncateTo(d16, upper), d16, reinterpret_cast<uint16_t*>(to));
}

// The ways in which the body of a loop accesses memory: whole vectors or, for the last vector of a range, only its first `count` lanes.
// Lanes that are not loaded are zero.
struct WholeVector {
  template <class D, class T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    return load_f32(d, from);
  }
  template <class D, class T>
  HWY_INLINE void store(D d, hn::Vec<D> value, T* to) const {
    store_f32(d, value, to);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> keep(D /*d*/, hn::Vec<D> value) const {
    return value;
  }
};
struct PartialVector {
  int64_t count;
  template <class D, class T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    alignas(64) T lanes[hn::MaxLanes(D())] = {};
    std::memcpy(lanes, from, static_cast<size_t>(count) * sizeof(T));
    return load_f32(d, lanes);
  }
  template <class D, class T>
  HWY_INLINE void store(D d, hn::Vec<D> value, T* to) const {
    alignas(64) T lanes[hn::MaxLanes(D())];
    store_f32(d, value, lanes);
    std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(T));
  }
  // Returns the value in the first `count` lanes and zero in the others.
  template <class D>
  HWY_INLINE hn::Vec<D> keep(D d, hn::Vec<D> value) const {
    return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), value);
  }
};

// Calls body(access, i) for each vector of [begin, end). access is a WholeVector, or a PartialVector for the
// last one.
template <class D, class Body>
HWY_INLINE void for_each_vector(D d, int64_t begin, int64_t end, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    body(WholeVector{}, i);
    body(WholeVector{}, i + lanes);
  }
  for (; i + lanes <= end; i += lanes) body(WholeVector{}, i);
  if (i < end) body(PartialVector{end - i}, i);
}

// The partial sums with which a row is summed in an order that depends only on the number of columns. Each group of columns is summed into
// four vectors. The sums of the groups are added one after another. At the end, the lanes of the resulting vector are added.
inline constexpr int64_t kColumnGroup = 256;
struct GroupSum {
  F32Vec part0, part1, part2, part3;
};
HWY_INLINE GroupSum zero_group_sum() {
  const F32Vec zero = hn::Zero(F32Tag());
  return {zero, zero, zero, zero};
}
HWY_INLINE F32Vec group_total(const GroupSum& sum) {
  return hn::Add(hn::Add(sum.part0, sum.part1), hn::Add(sum.part2, sum.part3));
}
HWY_INLINE float lanes_total(F32Vec v) {
  return hn::GetLane(hn::SumOfLanes(F32Tag(), v));
}

// Calls body(access, i, part_index) for each vector of [begin, end). part_index is an integral constant that cycles through 0..3; it
// selects one of the four vectors of GroupSum.
template <int kPart>
struct PartIndex {
  template <class Sum>
  static HWY_INLINE auto& of(Sum& sum) {
    if constexpr (kPart == 0) return sum.part0;
    if constexpr (kPart == 1) return sum.part1;
    if constexpr (kPart == 2) return sum.part2;
    if constexpr (kPart == 3) return sum.part3;
  }
};
template <class Body>
HWY_INLINE void for_each_vector_of_group(int64_t begin, int64_t end, const Body& body) {
  const F32Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    body(WholeVector{}, i, PartIndex<0>{});
    body(WholeVector{}, i + lanes, PartIndex<1>{});
    body(WholeVector{}, i + 2 * lanes, PartIndex<2>{});
    body(WholeVector{}, i + 3 * lanes, PartIndex<3>{});
  }
  for (; i + lanes <= end; i += lanes) body(WholeVector{}, i, PartIndex<0>{});
  if (i < end) body(PartialVector{end - i}, i, PartIndex<1>{});
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_VECTORS_INL_H_
