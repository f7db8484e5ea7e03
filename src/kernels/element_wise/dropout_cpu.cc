#include "kernels/element_wise/dropout.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/dropout_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/philox-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void dropout_of(const T* x, T* y, int64_t n, const DropoutColumns& columns, const DropoutSetup& setup) {
  for_each_chunk(n, [&](int64_t chunk_begin, int64_t chunk_end) HWY_ATTR {
    const F32Tag d;
    alignas(64) float factors[kDropoutFactors];
    for (int64_t begin = chunk_begin, end = 0; begin < chunk_end; begin = end) {
      end = std::min(chunk_end, begin + kDropoutChunk);
      // In a range of columns, only the elements of one row have consecutive random numbers, so a chunk ends at the end of a row.
      if (columns.C > 0) end = std::min(end, (begin / columns.C + 1) * columns.C);
      dropout_factors(setup, columns.number_of(begin), end - begin, factors);
      for_each_vector(d, begin, end, [&](auto access, int64_t i) HWY_ATTR {
        access.store(d, hn::Mul(access.load(d, x + i), access.load(d, factors + (i - begin))), y + i);
      });
    }
  });
}

void dropout_any(const DropoutFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    dropout_of(elements<T>(args.x), elements<T>(args.y), args.n, args.columns,
               dropout_setup(args.p, args.where));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(dropout_any);

void dropout_fwd_cpu(const DropoutFwdArgs& args) {
  const DType dtype = fast_type_of("dropout_fwd_cpu", {{"x", args.x}, {"y", args.y}});
  PLIMSOLL_CHECK(args.p >= 0.0 && args.p < 1.0, "the dropout probability must be in [0, 1), but is {}",
                 args.p);
  if (args.p > 0.0) return HWY_DYNAMIC_DISPATCH(dropout_any)(args, dtype);
  if (args.y.data == args.x.data) return;
  const int64_t bytes = dtype_bytes(dtype);
  for_each_chunk(args.n, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(args.y.data) + begin * bytes,
                static_cast<const char*>(args.x.data) + begin * bytes,
                static_cast<size_t>((end - begin) * bytes));
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
