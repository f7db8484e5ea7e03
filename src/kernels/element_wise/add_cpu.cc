#include "kernels/element_wise/add.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/add_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/column_sums-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void add_of(const T* a, const T* b, T* c, int64_t n) {
  for_each_chunk(n, [&](int64_t begin, int64_t end) HWY_ATTR {
    const F32Tag d;
    for_each_vector(d, begin, end, [&](auto access, int64_t i) HWY_ATTR {
      access.store(d, hn::Add(access.load(d, a + i), access.load(d, b + i)), c + i);
    });
  });
}

void add_any(const AddFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    add_of(elements<T>(args.a), elements<T>(args.b), elements<T>(args.c), args.n);
  });
}

template <class T, class P>
void bias_add_of(const BiasAddFwdArgs& args) {
  const T* x = elements<T>(args.x);
  const P* b = elements<P>(args.b);
  T* y = elements<T>(args.y);
  for_each_row(args.T, args.C, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.C;
    for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
      access.store(d, hn::Add(access.load(d, x + row + c), access.load(d, b + c)), y + row + c);
    });
  });
}

void bias_add_any(const BiasAddFwdArgs& args, DType dtype, DType parameters) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(parameters,
                   [&](auto parameter) HWY_ATTR { bias_add_of<decltype(type), decltype(parameter)>(args); });
  });
}

// Adds four rows to each other before they are added to the partial sums. This saves three quarters of the
// loads and stores of sums.
template <class T>
void sum_rows(const T* from, int64_t rows, int64_t C, float* sums) {
  const F32Tag d;
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T* first = from + row * C;
    for_each_vector(d, 0, C, [&](auto access, int64_t c) HWY_ATTR {
      const F32Vec lower = hn::Add(access.load(d, first + c), access.load(d, first + C + c));
      const F32Vec upper = hn::Add(access.load(d, first + 2 * C + c), access.load(d, first + 3 * C + c));
      access.store(d, hn::Add(access.load(d, sums + c), hn::Add(lower, upper)), sums + c);
    });
  }
  for (; row < rows; ++row) {
    for_each_vector(d, 0, C, [&](auto access, int64_t c) HWY_ATTR {
      access.store(d, hn::Add(access.load(d, sums + c), access.load(d, from + row * C + c)), sums + c);
    });
  }
}

void bias_grad_any(const BiasGradArgs& args, DType dtype) {
  const RowBlocks blocks = row_blocks(args.T, args.C);
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    parallel_for(blocks.num_blocks, [&](int64_t block, int) HWY_ATTR {
      const int64_t begin = block * blocks.rows_per_block;
      const int64_t rows = std::min(args.T - begin, blocks.rows_per_block);
      float* sums = partial_sums(args.scratch, blocks, args.C, 0, block);
      zero_partial_sums(sums, args.C);
      sum_rows(elements<T>(args.d_y) + begin * args.C, rows, args.C, sums);
    });
  });
  add_up_blocks(args.scratch, blocks, args.C, {args.d_b}, args.accumulate);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(add_any);
HWY_EXPORT(bias_add_any);
HWY_EXPORT(bias_grad_any);

void add_fwd_cpu(const AddFwdArgs& args) {
  const DType dtype = fast_type_of("add_fwd_cpu", {{"a", args.a}, {"b", args.b}, {"c", args.c}});
  HWY_DYNAMIC_DISPATCH(add_any)(args, dtype);
}

void accumulate_cpu(const AccumulateArgs& args) {
  if (args.accumulate == Accumulate::kAdd) {
    add_fwd_cpu(args);
  } else {
    cast_fwd_cpu({.x = args.b, .y = args.c, .n = args.n});
  }
}

void bias_add_fwd_cpu(const BiasAddFwdArgs& args) {
  const DType dtype = fast_type_of("bias_add_fwd_cpu", {{"x", args.x}, {"y", args.y}});
  const DType parameters = fast_type_of("bias_add_fwd_cpu", {{"b", args.b}});
  HWY_DYNAMIC_DISPATCH(bias_add_any)(args, dtype, parameters);
}

void bias_grad_cpu(const BiasGradArgs& args) {
  const DType dtype = fast_type_of("bias_grad_cpu", {{"d_y", args.d_y}});
  check_column_sum("bias_grad_cpu", {"d_b", args.d_b}, args.scratch);
  HWY_DYNAMIC_DISPATCH(bias_grad_any)(args, dtype);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
