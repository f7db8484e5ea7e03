#include "kernels/element_wise/gelu.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/gelu_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/activations-inl.h"
#include "kernels/element_wise/simd/column_sums-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

template <class Form, class T>
void gelu_fwd_of(const GeluFwdArgs& args) {
  const T* x = elements<T>(args.x);
  T* y = elements<T>(args.y);
  for_each_chunk(args.n, [&](int64_t begin, int64_t end) HWY_ATTR {
    const F32Tag d;
    for_each_vector(d, begin, end, [&](auto access, int64_t i) HWY_ATTR {
      access.store(d, Form::value(access.load(d, x + i)), y + i);
    });
  });
}

template <class Form, class T>
void gelu_bwd_of(const GeluBwdArgs& args) {
  const T* x = elements<T>(args.x);
  const T* d_y = elements<T>(args.d_y);
  T* d_x = elements<T>(args.d_x);
  for_each_chunk(args.n, [&](int64_t begin, int64_t end) HWY_ATTR {
    const F32Tag d;
    for_each_vector(d, begin, end, [&](auto access, int64_t i) HWY_ATTR {
      access.store(d, hn::Mul(access.load(d, d_y + i), Form::slope(access.load(d, x + i))), d_x + i);
    });
  });
}

template <class Form, class T, class P>
void bias_gelu_fwd_of(const BiasGeluFwdArgs& args) {
  const T* h = elements<T>(args.h);
  const P* b = elements<P>(args.b);
  T* y = elements<T>(args.y);
  for_each_row(args.T, args.C, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.C;
    for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
      const F32Vec x = hn::Add(access.load(d, h + row + c), access.load(d, b + c));
      access.store(d, Form::value(x), y + row + c);
    });
  });
}

template <class Form, class T, class P>
void bias_gelu_bwd_of(const BiasGeluBwdArgs& args, const RowBlocks& blocks) {
  const T* h = elements<T>(args.h);
  const P* b = elements<P>(args.b);
  const T* d_y = elements<T>(args.d_y);
  T* d_h = elements<T>(args.d_h);
  parallel_for(blocks.num_blocks, [&](int64_t block, int) HWY_ATTR {
    const F32Tag d;
    float* sums = partial_sums(args.scratch, blocks, args.C, 0, block);
    zero_partial_sums(sums, args.C);
    const int64_t end = std::min(args.T, (block + 1) * blocks.rows_per_block);
    for (int64_t t = block * blocks.rows_per_block; t < end; ++t) {
      const int64_t row = t * args.C;
      for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
        const F32Vec x = hn::Add(access.load(d, h + row + c), access.load(d, b + c));
        const F32Vec gradient = hn::Mul(access.load(d, d_y + row + c), Form::slope(x));
        access.store(d, gradient, d_h + row + c);
        access.store(d, hn::Add(access.load(d, sums + c), gradient), sums + c);
      });
    }
  });
  add_up_blocks(args.scratch, blocks, args.C, {args.d_b}, args.accumulate);
}

void gelu_fwd_any(const GeluFwdArgs& args, DType dtype) {
  with_form(args.activation, [&](auto form) HWY_ATTR {
    with_fast_type(dtype, [&](auto type) HWY_ATTR { gelu_fwd_of<decltype(form), decltype(type)>(args); });
  });
}

void gelu_bwd_any(const GeluBwdArgs& args, DType dtype) {
  with_form(args.activation, [&](auto form) HWY_ATTR {
    with_fast_type(dtype, [&](auto type) HWY_ATTR { gelu_bwd_of<decltype(form), decltype(type)>(args); });
  });
}

void bias_gelu_fwd_any(const BiasGeluFwdArgs& args, DType dtype, DType parameters) {
  with_form(args.activation, [&](auto form) HWY_ATTR {
    with_fast_type(dtype, [&](auto type) HWY_ATTR {
      with_fast_type(parameters, [&](auto parameter) HWY_ATTR {
        bias_gelu_fwd_of<decltype(form), decltype(type), decltype(parameter)>(args);
      });
    });
  });
}

void bias_gelu_bwd_any(const BiasGeluBwdArgs& args, DType dtype, DType parameters) {
  with_form(args.activation, [&](auto form) HWY_ATTR {
    with_fast_type(dtype, [&](auto type) HWY_ATTR {
      with_fast_type(parameters, [&](auto parameter) HWY_ATTR {
        bias_gelu_bwd_of<decltype(form), decltype(type), decltype(parameter)>(args,
                                                                              row_blocks(args.T, args.C));
      });
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(gelu_fwd_any);
HWY_EXPORT(gelu_bwd_any);
HWY_EXPORT(bias_gelu_fwd_any);
HWY_EXPORT(bias_gelu_bwd_any);

void gelu_fwd_cpu(const GeluFwdArgs& args) {
  const DType dtype = fast_type_of("gelu_fwd_cpu", {{"x", args.x}, {"y", args.y}});
  HWY_DYNAMIC_DISPATCH(gelu_fwd_any)(args, dtype);
}

void gelu_bwd_cpu(const GeluBwdArgs& args) {
  const DType dtype = fast_type_of("gelu_bwd_cpu", {{"x", args.x}, {"d_y", args.d_y}, {"d_x", args.d_x}});
  HWY_DYNAMIC_DISPATCH(gelu_bwd_any)(args, dtype);
}

void bias_gelu_fwd_cpu(const BiasGeluFwdArgs& args) {
  const DType dtype = fast_type_of("bias_gelu_fwd_cpu", {{"h", args.h}, {"y", args.y}});
  const DType parameters = fast_type_of("bias_gelu_fwd_cpu", {{"b", args.b}});
  HWY_DYNAMIC_DISPATCH(bias_gelu_fwd_any)(args, dtype, parameters);
}

void bias_gelu_bwd_cpu(const BiasGeluBwdArgs& args) {
  const DType dtype =
      fast_type_of("bias_gelu_bwd_cpu", {{"h", args.h}, {"d_y", args.d_y}, {"d_h", args.d_h}});
  const DType parameters = fast_type_of("bias_gelu_bwd_cpu", {{"b", args.b}});
  check_column_sum("bias_gelu_bwd_cpu", {"d_b", args.d_b}, args.scratch);
  HWY_DYNAMIC_DISPATCH(bias_gelu_bwd_any)(args, dtype, parameters);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
