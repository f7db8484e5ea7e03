#include "kernels/element_wise/glu.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/glu_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/activations-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

template <class Form, class T>
void glu_fwd_of(const GluFwdArgs& args) {
  const T* x = elements<T>(args.x);
  T* y = elements<T>(args.y);
  for_each_row(args.T, args.F, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const T* gate = x + 2 * t * args.F;
    const T* up = gate + args.F;
    for_each_vector(d, 0, args.F, [&](auto access, int64_t f) HWY_ATTR {
      access.store(d, hn::Mul(Form::value(access.load(d, gate + f)), access.load(d, up + f)),
                   y + t * args.F + f);
    });
  });
}

template <class Form, class T>
void glu_bwd_of(const GluBwdArgs& args) {
  const T* x = elements<T>(args.x);
  const T* d_y = elements<T>(args.d_y);
  T* d_x = elements<T>(args.d_x);
  for_each_row(args.T, args.F, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = 2 * t * args.F;
    for_each_vector(d, 0, args.F, [&](auto access, int64_t f) HWY_ATTR {
      const F32Vec gate = access.load(d, x + row + f);
      const F32Vec up = access.load(d, x + row + args.F + f);
      const F32Vec g = access.load(d, d_y + t * args.F + f);
      access.store(d, hn::Mul(hn::Mul(g, up), Form::slope(gate)), d_x + row + f);
      access.store(d, hn::Mul(g, Form::value(gate)), d_x + row + args.F + f);
    });
  });
}

void glu_fwd_any(const GluFwdArgs& args, DType dtype) {
  with_form(args.activation, [&](auto form) HWY_ATTR {
    with_fast_type(dtype, [&](auto type) HWY_ATTR { glu_fwd_of<decltype(form), decltype(type)>(args); });
  });
}
void glu_bwd_any(const GluBwdArgs& args, DType dtype) {
  with_form(args.activation, [&](auto form) HWY_ATTR {
    with_fast_type(dtype, [&](auto type) HWY_ATTR { glu_bwd_of<decltype(form), decltype(type)>(args); });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(glu_fwd_any);
HWY_EXPORT(glu_bwd_any);

void glu_fwd_cpu(const GluFwdArgs& args) {
  const DType dtype = fast_type_of("glu_fwd_cpu", {{"x", args.x}, {"y", args.y}});
  HWY_DYNAMIC_DISPATCH(glu_fwd_any)(args, dtype);
}
void glu_bwd_cpu(const GluBwdArgs& args) {
  const DType dtype = fast_type_of("glu_bwd_cpu", {{"x", args.x}, {"d_y", args.d_y}, {"d_x", args.d_x}});
  HWY_DYNAMIC_DISPATCH(glu_bwd_any)(args, dtype);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
