#include "kernels/element_wise/gelu.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/gelu_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/column_sums-inl.h"
#include "kernels/element_wise/simd/math-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

// gelu(x) = max(x, 0) - z * Phi(-z) and gelu'(x) = step(x) + sign(x) * (z * phi(z) - Phi(-z)) with z = |x|. The small
// quantities are computed directly. For NaN the comparison with kNormalTailEnd is false, so the result is NaN too.
struct GeluForm {
  static HWY_INLINE F32Vec value(F32Vec x) {
    const F32Tag d;
    const F32Vec z = hn::Abs(x);
    const NormalTail normal = normal_tail(z);
    const F32Vec tail = hn::IfThenZeroElse(hn::Ge(z, hn::Set(d, kNormalTailEnd)),
                                           hn::Mul(normal.ratio, normal.exp_half_square));
    return hn::NegMulAdd(z, tail, hn::Max(x, hn::Zero(d)));
  }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Tag d;
    const F32Vec z = hn::Abs(x);
    const NormalTail normal = normal_tail(z);
    // phi(z) = exp(-z^2 / 2) / sqrt(2 pi); the constant is 1 / sqrt(2 pi).
    const F32Vec difference = hn::MulSub(z, hn::Set(d, 0.398942280f), normal.ratio);
    const F32Vec h = hn::IfThenZeroElse(hn::Ge(z, hn::Set(d, kNormalTailEnd)),
                                        hn::Mul(difference, normal.exp_half_square));
    const auto negative = hn::Lt(x, hn::Zero(d));
    return hn::IfThenElse(negative, hn::Neg(h), hn::Add(h, hn::Set(d, 1.0f)));
  }
};

// gate = 1 / (1 + e) with e = exp(-v) = 2^y. For |y| > 125 either gate or e is below the smallest normal number,
// or nearly, and is set to 0. |x| is clamped where the result no longer changes and nothing overflows yet.
struct Gate {
  F32Vec x, gate, e;
};
HWY_INLINE F32Vec cut_to(F32Vec x, float limit) {
  return hn::CopySign(hn::Min(hn::Abs(x), hn::Set(F32Tag(), limit)), x);
}
HWY_INLINE Gate gate_of(F32Vec cut, F32Vec y) {
  const F32Tag d;
  const F32Vec edge = hn::Set(d, 125.0f);
  const F32Vec e = exp2_in_range(hn::Max(hn::Min(y, edge), hn::Neg(edge)));
  const F32Vec gate = hn::Div(hn::Set(d, 1.0f), hn::Add(e, hn::Set(d, 1.0f)));
  return {cut, hn::IfThenElseZero(hn::Lt(y, edge), gate), hn::IfThenElseZero(hn::Lt(hn::Neg(edge), y), e)};
}
// Returns gate + x * gate * (1 - gate) * v'(x). The comparison is false for NaN, so NaN is passed through.
HWY_INLINE F32Vec gated_slope(F32Vec x, const Gate& g, F32Vec d_v) {
  const F32Vec d_gate = hn::Mul(hn::Mul(hn::Mul(g.e, g.gate), g.gate), d_v);
  return hn::IfThenElse(hn::Eq(x, x), hn::MulAdd(g.x, d_gate, g.gate), x);
}

// x * gate with v = 2 sqrt(2/pi) (x + 0.044715 x^3).
struct GeluTanhForm {
  static HWY_INLINE Gate gate(F32Vec x) {
    const F32Tag d;
    const F32Vec cut = cut_to(x, 15.0f);
    const F32Vec square = hn::Mul(cut, cut);
    // The constants are 2 * sqrt(2/pi) * log2(e), and that times 0.044715.
    const F32Vec slope = hn::NegMulAdd(square, hn::Set(d, 0.102943240f), hn::Set(d, -2.30220819f));
    return gate_of(cut, hn::Mul(cut, slope));
  }
  static HWY_INLINE F32Vec value(F32Vec x) { return hn::Mul(x, gate(x).gate); }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Tag d;
    const Gate g = gate(x);
    const F32Vec square = hn::Mul(g.x, g.x);
    return gated_slope(x, g, hn::MulAdd(square, hn::Set(d, 0.214064449f), hn::Set(d, 1.59576912f)));
  }
};

// x * gate with v = x.
struct SiluForm {
  static HWY_INLINE Gate gate(F32Vec x) {
    const F32Vec cut = cut_to(x, 100.0f);
    return gate_of(cut, hn::Mul(cut, hn::Set(F32Tag(), -1.44269504f)));  // log2(e)
  }
  static HWY_INLINE F32Vec value(F32Vec x) { return hn::Mul(x, gate(x).gate); }
  static HWY_INLINE F32Vec slope(F32Vec x) { return gated_slope(x, gate(x), hn::Set(F32Tag(), 1.0f)); }
};

// Comparisons with NaN are false, so both functions pass NaN through.
struct ReluForm {
  static HWY_INLINE F32Vec value(F32Vec x) {
    const F32Vec zero = hn::Zero(F32Tag());
    return hn::IfThenElse(hn::Le(x, zero), zero, x);
  }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Tag d;
    const F32Vec step = hn::IfThenElseZero(hn::Lt(hn::Zero(d), x), hn::Set(d, 1.0f));
    return hn::IfThenElse(hn::Eq(x, x), step, x);
  }
};

struct TanhForm {
  static HWY_INLINE F32Vec value(F32Vec x) { return tanh_f32(x); }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Vec y = tanh_f32(x);
    return hn::NegMulAdd(y, y, hn::Set(F32Tag(), 1.0f));
  }
};

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

// Calls body with an object of the type that computes the activation.
template <class Body>
void with_form(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kGelu:
      return body(GeluForm{});
    case Activation::kGeluTanh:
      return body(GeluTanhForm{});
    case Activation::kRelu:
      return body(ReluForm{});
    case Activation::kSilu:
      return body(SiluForm{});
    case Activation::kTanh:
      return body(TanhForm{});
  }
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
