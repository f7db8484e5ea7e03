#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/eight_bit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/eight_bit_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Tag>
HWY_INLINE void load_vector(Tag tag, const EightBitMap& map, const uint8_t* codes, float absmax, float* x) {
  const hn::RebindToSigned<Tag> integers;
  const hn::Rebind<uint8_t, Tag> bytes;
  const auto index = hn::PromoteTo(integers, hn::LoadU(bytes, codes));
  hn::StoreU(hn::Mul(hn::GatherIndex(tag, map.numbers.data(), index), hn::Set(tag, absmax)), tag, x);
}

void load_block(const EightBitMap& map, const uint8_t* codes, float absmax, float* x, int64_t count) {
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) load_vector(tag, map, codes + i, absmax, x + i);
  for (; i < count; ++i) load_vector(hn::CappedTag<float, 1>(), map, codes + i, absmax, x + i);
}

// Stores the codes of one vector of elements, which are computed as eight_bit_magnitude() and eight_bit_signed_code() do.
template <typename Tag>
HWY_INLINE void store_vector(Tag tag, const EightBitMap& map, EightBitSign sign, float inverse,
                             const float* x, uint8_t* codes) {
  const hn::RebindToSigned<Tag> integers;
  const hn::Rebind<uint8_t, Tag> bytes;
  const auto quotient = hn::Mul(hn::LoadU(tag, x), hn::Set(tag, inverse));
  const auto bits = hn::BitCast(integers, hn::Abs(quotient));
  const auto first = hn::Set(integers, static_cast<int32_t>(kEightBitFirstCell));
  const auto last = hn::Set(integers, static_cast<int32_t>(kEightBitCells - 1));
  const auto upper = hn::Sub(hn::ShiftRight<16>(bits), first);
  const auto cell = hn::Min(hn::Max(upper, hn::Zero(integers)), last);
  const auto entry = hn::GatherIndex(integers, reinterpret_cast<const int32_t*>(map.cells.data()), cell);
  const auto low = hn::Set(integers, 0xffff);
  const auto beyond = hn::Gt(hn::And(bits, low), hn::And(entry, low));
  auto code = hn::Add(hn::ShiftRight<16>(entry), hn::IfThenElseZero(beyond, hn::Set(integers, 1)));
  if (sign == EightBitSign::kSigned) {
    const auto middle = hn::Set(integers, 127);
    const auto negative = hn::Lt(hn::BitCast(integers, quotient), hn::Zero(integers));
    code = hn::IfThenElse(negative, hn::Sub(middle, hn::Min(code, middle)), hn::Add(middle, code));
  }
  hn::StoreU(hn::DemoteTo(bytes, code), bytes, codes);
}

float store_block(const EightBitMap& map, EightBitSign sign, const float* x, int64_t count, uint8_t* codes) {
  const hn::ScalableTag<float> tag;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto largest = hn::Zero(tag);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(tag, x + i)));
  float absmax = hn::GetLane(hn::MaxOfLanes(tag, largest));
  for (; i < count; ++i) {
    absmax = hn::GetLane(hn::Max(hn::Set(one, absmax), hn::Abs(hn::LoadU(one, x + i))));
  }
  const float inverse = absmax >= 0x1p-126f ? 1.0f / absmax : 0.0f;
  for (i = 0; i + lanes <= count; i += lanes) store_vector(tag, map, sign, inverse, x + i, codes + i);
  for (; i < count; ++i) store_vector(one, map, sign, inverse, x + i, codes + i);
  return absmax;
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(load_block);
HWY_EXPORT(store_block);

void load_eight_bit_cpu(const EightBitMap& map, const uint8_t* codes, float absmax, float* x, int64_t count) {
  HWY_DYNAMIC_DISPATCH(load_block)(map, codes, absmax, x, count);
}

float store_eight_bit_cpu(const EightBitMap& map, EightBitSign sign, const float* x, int64_t count,
                          uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(store_block)(map, sign, x, count, codes);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
