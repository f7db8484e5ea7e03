#include "kernels/element_wise/activation.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/activation_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/math-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

struct Tanh {
  static HWY_INLINE F32Vec value(F32Vec x) { return tanh_f32(x); }
  static HWY_INLINE F32Vec gradient(F32Vec y, F32Vec d_y) {
    return hn::Mul(d_y, hn::NegMulAdd(y, y, hn::Set(F32Tag(), 1.0f)));
  }
};
struct Relu {
  static HWY_INLINE F32Vec value(F32Vec x) {
    const F32Vec zero = hn::Zero(F32Tag());
    return hn::IfThenElse(hn::Le(x, zero), zero, x);
  }
  static HWY_INLINE F32Vec gradient(F32Vec y, F32Vec d_y) {
    return hn::IfThenElseZero(hn::Lt(hn::Zero(F32Tag()), y), d_y);
  }
};

template <class Function, class T>
void activation_fwd_of(const ActivationFwdArgs& args) {
  const T* x = elements<T>(args.x);
  T* y = elements<T>(args.y);
  for_each_chunk(args.n, [&](int64_t begin, int64_t end) HWY_ATTR {
    const F32Tag d;
    for_each_vector(d, begin, end, [&](auto access, int64_t i) HWY_ATTR {
      access.store(d, Function::value(access.load(d, x + i)), y + i);
    });
  });
}

template <class Function, class T>
void activation_bwd_of(const ActivationBwdArgs& args) {
  const T* y = elements<T>(args.y);
  const T* d_y = elements<T>(args.d_y);
  T* d_x = elements<T>(args.d_x);
  for_each_chunk(args.n, [&](int64_t begin, int64_t end) HWY_ATTR {
    const F32Tag d;
    for_each_vector(d, begin, end, [&](auto access, int64_t i) HWY_ATTR {
      access.store(d, Function::gradient(access.load(d, y + i), access.load(d, d_y + i)), d_x + i);
    });
  });
}

void tanh_fwd_any(const ActivationFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { activation_fwd_of<Tanh, decltype(type)>(args); });
}
void tanh_bwd_any(const ActivationBwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { activation_bwd_of<Tanh, decltype(type)>(args); });
}
void relu_fwd_any(const ActivationFwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { activation_fwd_of<Relu, decltype(type)>(args); });
}
void relu_bwd_any(const ActivationBwdArgs& args, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR { activation_bwd_of<Relu, decltype(type)>(args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(tanh_fwd_any);
HWY_EXPORT(tanh_bwd_any);
HWY_EXPORT(relu_fwd_any);
HWY_EXPORT(relu_bwd_any);

namespace {
DType type_of(const char* kernel, const ActivationFwdArgs& args) {
  return fast_type_of(kernel, {{"x", args.x}, {"y", args.y}});
}
DType type_of(const char* kernel, const ActivationBwdArgs& args) {
  return fast_type_of(kernel, {{"y", args.y}, {"d_y", args.d_y}, {"d_x", args.d_x}});
}
}  // namespace

void tanh_fwd_cpu(const ActivationFwdArgs& args) {
  HWY_DYNAMIC_DISPATCH(tanh_fwd_any)(args, type_of("tanh_fwd_cpu", args));
}
void tanh_bwd_cpu(const ActivationBwdArgs& args) {
  HWY_DYNAMIC_DISPATCH(tanh_bwd_any)(args, type_of("tanh_bwd_cpu", args));
}
void relu_fwd_cpu(const ActivationFwdArgs& args) {
  HWY_DYNAMIC_DISPATCH(relu_fwd_any)(args, type_of("relu_fwd_cpu", args));
}
void relu_bwd_cpu(const ActivationBwdArgs& args) {
  HWY_DYNAMIC_DISPATCH(relu_bwd_any)(args, type_of("relu_bwd_cpu", args));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
