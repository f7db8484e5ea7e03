#include "kernels/element_wise/scale_shift.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/element_wise/scale_shift_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/column_sums-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

template <class T, class P>
void scale_shift_fwd_of(const ScaleShiftFwdArgs& args) {
  const T* x_hat = elements<T>(args.x_hat);
  const P* gain = elements<P>(args.gain);
  const P* bias = elements<P>(args.bias);
  T* y = elements<T>(args.y);
  for_each_row(args.T, args.C, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.C;
    for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
      const F32Vec x = access.load(d, x_hat + row + c);
      const F32Vec shift = bias != nullptr ? access.load(d, bias + c) : hn::Zero(d);
      access.store(d, hn::MulAdd(x, access.load(d, gain + c), shift), y + row + c);
    });
  });
}

template <class T, class P>
void scale_shift_bwd_of(const ScaleShiftBwdArgs& args, const RowBlocks& blocks) {
  const T* d_y = elements<T>(args.d_y);
  const T* x_hat = elements<T>(args.x_hat);
  const P* gain = elements<P>(args.gain);
  T* d_x_hat = elements<T>(args.d_x_hat);
  parallel_for(blocks.num_blocks, [&](int64_t block, int) HWY_ATTR {
    const F32Tag d;
    float* gain_sums = partial_sums(args.scratch, blocks, args.C, 0, block);
    float* bias_sums = partial_sums(args.scratch, blocks, args.C, 1, block);
    zero_partial_sums(gain_sums, args.C);
    zero_partial_sums(bias_sums, args.C);
    const int64_t end = std::min(args.T, (block + 1) * blocks.rows_per_block);
    for (int64_t t = block * blocks.rows_per_block; t < end; ++t) {
      const int64_t row = t * args.C;
      for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
        const F32Vec g = access.load(d, d_y + row + c);
        const F32Vec x = access.load(d, x_hat + row + c);
        access.store(d, hn::Mul(g, access.load(d, gain + c)), d_x_hat + row + c);
        access.store(d, hn::MulAdd(g, x, access.load(d, gain_sums + c)), gain_sums + c);
        access.store(d, hn::Add(access.load(d, bias_sums + c), g), bias_sums + c);
      });
    }
  });
  add_up_blocks(args.scratch, blocks, args.C, {args.d_gain, args.d_bias}, args.accumulate);
}

void scale_shift_fwd_any(const ScaleShiftFwdArgs& args, DType dtype, DType parameters) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(parameters, [&](auto parameter) HWY_ATTR {
      scale_shift_fwd_of<decltype(type), decltype(parameter)>(args);
    });
  });
}

void scale_shift_bwd_any(const ScaleShiftBwdArgs& args, DType dtype, DType parameters) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(parameters, [&](auto parameter) HWY_ATTR {
      scale_shift_bwd_of<decltype(type), decltype(parameter)>(args, row_blocks(args.T, args.C));
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(scale_shift_fwd_any);
HWY_EXPORT(scale_shift_bwd_any);

void scale_shift_fwd_cpu(const ScaleShiftFwdArgs& args) {
  const DType dtype = fast_type_of("scale_shift_fwd_cpu", {{"x_hat", args.x_hat}, {"y", args.y}});
  const DType parameters = fast_type_of(
      "scale_shift_fwd_cpu", {{"gain", args.gain}, {"bias", args.bias, Operand::Presence::kOptional}});
  HWY_DYNAMIC_DISPATCH(scale_shift_fwd_any)(args, dtype, parameters);
}

void scale_shift_bwd_cpu(const ScaleShiftBwdArgs& args) {
  const DType dtype = fast_type_of("scale_shift_bwd_cpu",
                                   {{"d_y", args.d_y}, {"x_hat", args.x_hat}, {"d_x_hat", args.d_x_hat}});
  const DType parameters = fast_type_of("scale_shift_bwd_cpu", {{"gain", args.gain}});
  check_column_sum("scale_shift_bwd_cpu", {"d_gain", args.d_gain}, args.scratch);
  check_column_sum("scale_shift_bwd_cpu", {"d_bias", args.d_bias, Operand::Presence::kOptional},
                   args.scratch);
  HWY_DYNAMIC_DISPATCH(scale_shift_bwd_any)(args, dtype, parameters);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
