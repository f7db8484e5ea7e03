#include "kernels/element_wise/column_range.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/column_range_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <cstring>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void columns_of(const ColumnsFwdArgs& args) {
  const T* x = elements<T>(args.x);
  T* y = elements<T>(args.y);
  for_each_row(args.T, args.K, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const F32Vec scale = hn::Set(d, static_cast<float>(args.scale));
    const T* from = x + t * args.N + args.first;
    T* to = y + t * args.K;
    for_each_vector(d, 0, args.K, [&](auto access, int64_t k) HWY_ATTR {
      access.store(d, hn::Mul(access.load(d, from + k), scale), to + k);
    });
  });
}

void columns_any(const ColumnsFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { columns_of<decltype(type)>(args); });
}

template <class T>
void add_columns_of(const AddColumnsFwdArgs& args) {
  const T* x = elements<T>(args.x);
  const T* y = elements<T>(args.y);
  T* z = elements<T>(args.z);
  for_each_row(args.T, args.N, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.N;
    if (z != x) {
      std::memcpy(z + row, x + row, static_cast<size_t>(args.first) * sizeof(T));
      const int64_t after = args.first + args.K;
      std::memcpy(z + row + after, x + row + after, static_cast<size_t>(args.N - after) * sizeof(T));
    }
    const T* from = x + row + args.first;
    const T* added = y + t * args.K;
    T* to = z + row + args.first;
    for_each_vector(d, 0, args.K, [&](auto access, int64_t k) HWY_ATTR {
      access.store(d, hn::Add(access.load(d, from + k), access.load(d, added + k)), to + k);
    });
  });
}

void add_columns_any(const AddColumnsFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { add_columns_of<decltype(type)>(args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(columns_any);
HWY_EXPORT(add_columns_any);

void columns_fwd_cpu(const ColumnsFwdArgs& args) {
  const DType dtype = fast_type_of("columns_fwd_cpu", {{"x", args.x}, {"y", args.y}});
  PLIMSOLL_CHECK(args.first >= 0 && args.first + args.K <= args.N,
                 "columns_fwd_cpu: {} columns from column {} on exceed the {} columns of the tensor", args.K,
                 args.first, args.N);
  HWY_DYNAMIC_DISPATCH(columns_any)(args, dtype);
}

void add_columns_fwd_cpu(const AddColumnsFwdArgs& args) {
  const DType dtype = fast_type_of("add_columns_fwd_cpu", {{"x", args.x}, {"y", args.y}, {"z", args.z}});
  PLIMSOLL_CHECK(args.first >= 0 && args.first + args.K <= args.N,
                 "add_columns_fwd_cpu: {} columns from column {} on exceed the {} columns of the tensor",
                 args.K, args.first, args.N);
  HWY_DYNAMIC_DISPATCH(add_columns_any)(args, dtype);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
