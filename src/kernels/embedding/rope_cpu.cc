#include "kernels/embedding/rope.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/rope_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

// Rotates one row. `sign` is 1, or -1 for the transposed rotation, which is the gradient.
template <class T>
HWY_INLINE void rotate_row(const T* x, const float* table, T* y, int64_t H, int64_t D, float sign) {
  const F32Tag d;
  const int64_t half = D / 2;
  const F32Vec signs = hn::Set(d, sign);
  for (int64_t h = 0; h < H; ++h) {
    const int64_t head = h * D;
    for_each_vector(d, 0, half, [&](auto access, int64_t i) HWY_ATTR {
      const F32Vec a = access.load(d, x + head + i), b = access.load(d, x + head + half + i);
      const F32Vec c = access.load(d, table + i);
      const F32Vec s = hn::Mul(access.load(d, table + half + i), signs);
      access.store(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), y + head + i);
      access.store(d, hn::MulAdd(a, s, hn::Mul(b, c)), y + head + half + i);
    });
  }
}

template <class T>
void rope_of(const RopeArgs& args) {
  const T* x = elements<T>(args.x);
  const float* table = elements<float>(args.table);
  T* y = elements<T>(args.y);
  const float sign = args.direction == RopeDirection::kForward ? 1.0f : -1.0f;
  const int64_t rotated = args.H * args.D;
  for_each_row(args.T, args.N, [&](int64_t t) HWY_ATTR {
    const int64_t row = t * args.N;
    rotate_row(x + row, table + t * args.D, y + row, args.H, args.D, sign);
    if (x == y) return;
    std::memcpy(y + row + rotated, x + row + rotated, static_cast<size_t>(args.N - rotated) * sizeof(T));
  });
}

void rope_any(const RopeArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { rope_of<decltype(type)>(args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(rope_any);

// Calls the slow sine and cosine of the C library, because the table is computed only once per batch for all layers.
void rope_table_cpu(const RopeTableArgs& args) {
  PLIMSOLL_CHECK(args.positions && args.cu_seqlens && args.table.dtype == DType::kF32,
                 "rope_table_cpu: positions, cu_seqlens and table must be present, and table must be f32");
  const int32_t* positions = args.positions.as<int32_t>();
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  float* table = elements<float>(args.table);
  for_each_row(args.T, 16 * args.D, [&](int64_t t) {
    const int32_t* next = std::upper_bound(cu_seqlens, cu_seqlens + args.B + 1, static_cast<int32_t>(t));
    const bool is_token = next != cu_seqlens + args.B + 1;
    const int64_t length = is_token ? next[0] - next[-1] : 0;
    float* cosines = table + t * args.D;
    for (int64_t i = 0; i < args.D / 2; ++i) {
      const double angle = static_cast<double>(positions[t]) * args.frequencies.frequency(i, args.D, length);
      cosines[i] = static_cast<float>(args.frequencies.scale * std::cos(angle));
      cosines[args.D / 2 + i] = static_cast<float>(args.frequencies.scale * std::sin(angle));
    }
  });
}

void rope_cpu(const RopeArgs& args) {
  const DType dtype = fast_type_of("rope_cpu", {{"x", args.x}, {"y", args.y}});
  PLIMSOLL_CHECK(args.table && args.table.dtype == DType::kF32,
                 "rope_cpu: the table must be present and f32");
  HWY_DYNAMIC_DISPATCH(rope_any)(args, dtype);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
