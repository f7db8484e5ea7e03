#include "kernels/layer_norm/bias_dropout_residual_norm.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/bias_dropout_residual_norm_cpu.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/column_sums-inl.h"
#include "kernels/element_wise/simd/philox-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"
#include "kernels/layer_norm/norm_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

static_assert(kColumnGroup == kDropoutChunk);

// The inner loops test whether each optional operand is null, instead of being compiled for each combination of operands. The result of the
// test is the same for a whole call, so it costs little compared with the memory accesses. Dropout is a template parameter, because without
// it the loops need neither its buffer nor its computation.

template <class T, class P>
struct ForwardOperands {
  const T* x;
  const P* bias;
  const T* residual;
  const P* gain;
  const P* beta;
  T* y;
  T* x_hat;
  float* rstd;
  T* sum;
};

// Computes the sum s = residual + dropout(x + bias) of row t in fp32, stores it if it is an output, and returns the mean of its elements.
// If s is stored, its elements are rounded before the mean is computed.
template <bool kDropout, class T, class P>
HWY_INLINE float sum_branch_and_residual(const BiasDropoutResidualNormFwdArgs& args,
                                         const ForwardOperands<T, P>& from, const DropoutSetup& dropout,
                                         int64_t t, float* s) {
  const F32Tag d;
  const int64_t row = t * args.C;
  F32Vec total = hn::Zero(d);
  alignas(64) float factors[kDropout ? kDropoutFactors : 1];
  for_each_column_group(args.C, [&](int64_t begin, int64_t end) HWY_ATTR {
    if constexpr (kDropout) dropout_factors(dropout, row + begin, end - begin, factors);
    GroupSum sum = zero_group_sum();
    for_each_vector_of_group(begin, end, [&](auto access, int64_t c, auto part) HWY_ATTR {
      hwy::Prefetch(from.y + row + c);
      if (from.x_hat != nullptr) hwy::Prefetch(from.x_hat + row + c);
      F32Vec value = access.load(d, from.x + row + c);
      if (from.bias != nullptr) value = hn::Add(value, access.load(d, from.bias + c));
      if constexpr (kDropout) value = hn::Mul(value, access.load(d, factors + (c - begin)));
      if (from.residual != nullptr) value = hn::Add(value, access.load(d, from.residual + row + c));
      if (from.sum != nullptr) {
        access.store(d, value, from.sum + row + c);
        value = access.load(d, from.sum + row + c);
      }
      access.store(d, value, s + c);
      part.of(sum) = hn::Add(part.of(sum), value);
    });
    total = hn::Add(total, group_total(sum));
  });
  return lanes_total(total) / static_cast<float>(args.C);
}

template <bool kDropout, class T, class P>
void forward_of(const BiasDropoutResidualNormFwdArgs& args) {
  const ForwardOperands<T, P> at = {
      elements<T>(args.x),     elements<P>(args.bias),     elements<T>(args.residual),
      elements<P>(args.gain),  elements<P>(args.beta),     elements<T>(args.y),
      elements<T>(args.x_hat), elements<float>(args.rstd), elements<T>(args.sum)};
  const DropoutSetup dropout = dropout_setup(args.p, args.where);
  for_each_row(args.T, args.C, [&](int64_t t) HWY_ATTR {
    const F32Tag d;
    const int64_t row = t * args.C;
    alignas(64) float s[kMaxNormColumns];
    const float mean = sum_branch_and_residual<kDropout>(args, at, dropout, t, s);
    const float rstd = row_rstd(s, args.C, mean, args.eps);
    if (at.rstd != nullptr) at.rstd[t] = rstd;
    const F32Vec means = hn::Set(d, mean);
    const F32Vec rstds = hn::Set(d, rstd);
    for_each_vector(d, 0, args.C, [&](auto access, int64_t c) HWY_ATTR {
      hwy::Prefetch(at.x + row + args.C + c);
      if (at.residual != nullptr) hwy::Prefetch(at.residual + row + args.C + c);
      const F32Vec x_hat = hn::Mul(hn::Sub(access.load(d, s + c), means), rstds);
      if (at.x_hat != nullptr) access.store(d, x_hat, at.x_hat + row + c);
      const F32Vec shift = at.beta != nullptr ? access.load(d, at.beta + c) : hn::Zero(d);
      access.store(d, hn::MulAdd(x_hat, access.load(d, at.gain + c), shift), at.y + row + c);
    });
  });
}

template <class T, class P>
struct BackwardOperands {
  const T* d_y;
  const T* d_y2;
  const T* x_hat;
  const float* rstd;
  const P* gain;
  const T* d_sum_term;
  T* d_residual;
  T* d_x;
};
struct BackwardSums {
  float* gain;
  float* beta;
  float* bias;
};
struct GradientMeans {
  float g, g_x_hat;
};

// Computes g * gain of a row in fp32, where g = d_y + d_y2, adds the row to the sums over rows for d_gain and d_beta, and returns the means
// of g * gain and of g * gain * x_hat over the row, which the gradient needs.
template <class T, class P>
HWY_INLINE GradientMeans gradient_of_row(const BackwardOperands<T, P>& from, int64_t row, int64_t C,
                                         const BackwardSums& sums, float* scaled) {
  const F32Tag d;
  F32Vec total = hn::Zero(d);
  F32Vec total_product = hn::Zero(d);
  for_each_column_group(C, [&](int64_t begin, int64_t end) HWY_ATTR {
    GroupSum sum = zero_group_sum();
    GroupSum product = zero_group_sum();
    for_each_vector_of_group(begin, end, [&](auto access, int64_t c, auto part) HWY_ATTR {
      if (from.d_residual != nullptr) hwy::Prefetch(from.d_residual + row + c);
      if (from.d_x != nullptr) hwy::Prefetch(from.d_x + row + c);
      F32Vec g = access.load(d, from.d_y + row + c);
      if (from.d_y2 != nullptr) g = hn::Add(g, access.load(d, from.d_y2 + row + c));
      const F32Vec x_hat = access.load(d, from.x_hat + row + c);
      access.store(d, hn::MulAdd(g, x_hat, access.load(d, sums.gain + c)), sums.gain + c);
      access.store(d, hn::Add(access.load(d, sums.beta + c), g), sums.beta + c);
      const F32Vec value = hn::Mul(g, access.load(d, from.gain + c));
      access.store(d, value, scaled + c);
      part.of(sum) = hn::Add(part.of(sum), value);
      part.of(product) = hn::MulAdd(value, x_hat, part.of(product));
    });
    total = hn::Add(total, group_total(sum));
    total_product = hn::Add(total_product, group_total(product));
  });
  return {lanes_total(total) / static_cast<float>(C), lanes_total(total_product) / static_cast<float>(C)};
}

// Writes d_residual and d_x of row t and adds d_x to the sums over rows for d_bias.
template <bool kDropout, class T, class P>
HWY_INLINE void finish_row(const BackwardOperands<T, P>& at, int64_t t, int64_t C, const GradientMeans& means,
                           const DropoutSetup& dropout, const float* scaled, float* bias_sums) {
  const F32Tag d;
  const int64_t row = t * C;
  const F32Vec mean = hn::Set(d, means.g);
  const F32Vec mean_product = hn::Set(d, means.g_x_hat);
  const F32Vec rstd = hn::Set(d, at.rstd[t]);
  alignas(64) float factors[kDropout ? kDropoutFactors : 1];
  const bool needs_d_x = at.d_x != nullptr || bias_sums != nullptr;
  for_each_column_group(C, [&](int64_t begin, int64_t end) HWY_ATTR {
    if constexpr (kDropout) {
      if (needs_d_x) dropout_factors(dropout, row + begin, end - begin, factors);
    }
    for_each_vector(d, begin, end, [&](auto access, int64_t c) HWY_ATTR {
      hwy::Prefetch(at.d_y + row + C + c);
      if (at.d_y2 != nullptr) hwy::Prefetch(at.d_y2 + row + C + c);
      hwy::Prefetch(at.x_hat + row + C + c);
      const F32Vec centered = hn::Sub(access.load(d, scaled + c), mean);
      const F32Vec x_hat = access.load(d, at.x_hat + row + c);
      F32Vec d_s = hn::Mul(rstd, hn::NegMulAdd(x_hat, mean_product, centered));
      if (at.d_sum_term != nullptr) d_s = hn::Add(d_s, access.load(d, at.d_sum_term + row + c));
      if (at.d_residual != nullptr) access.store(d, d_s, at.d_residual + row + c);
      if (!needs_d_x) return;
      F32Vec d_x = d_s;
      if constexpr (kDropout) d_x = hn::Mul(d_s, access.load(d, factors + (c - begin)));
      if (at.d_x != nullptr) access.store(d, d_x, at.d_x + row + c);
      if (bias_sums != nullptr) access.store(d, hn::Add(access.load(d, bias_sums + c), d_x), bias_sums + c);
    });
  });
}

template <bool kDropout, class T, class P>
void backward_of(const BiasDropoutResidualNormBwdArgs& args, const RowBlocks& blocks) {
  const BackwardOperands<T, P> at = {elements<T>(args.d_y),        elements<T>(args.d_y2),
                                     elements<T>(args.x_hat),      elements<float>(args.rstd),
                                     elements<P>(args.gain),       elements<T>(args.d_sum_term),
                                     elements<T>(args.d_residual), elements<T>(args.d_x)};
  const DropoutSetup dropout = dropout_setup(args.p, args.where);
  parallel_for(blocks.num_blocks, [&](int64_t block, int) HWY_ATTR {
    const BackwardSums sums = {partial_sums(args.scratch, blocks, args.C, 0, block),
                               partial_sums(args.scratch, blocks, args.C, 1, block),
                               partial_sums(args.scratch, blocks, args.C, 2, block)};
    for (float* sum : {sums.gain, sums.beta, sums.bias}) zero_partial_sums(sum, args.C);
    alignas(64) float scaled[kMaxNormColumns];
    const int64_t end = std::min(args.T, (block + 1) * blocks.rows_per_block);
    for (int64_t t = block * blocks.rows_per_block; t < end; ++t) {
      const GradientMeans means = gradient_of_row(at, t * args.C, args.C, sums, scaled);
      finish_row<kDropout>(at, t, args.C, means, dropout, scaled, args.d_bias ? sums.bias : nullptr);
    }
  });
  add_up_blocks(args.scratch, blocks, args.C, {args.d_gain, args.d_beta, args.d_bias}, args.accumulate);
}

void forward_any(const BiasDropoutResidualNormFwdArgs& args, DType dtype, DType parameters) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(parameters, [&](auto parameter) HWY_ATTR {
      using T = decltype(type);
      using P = decltype(parameter);
      args.p > 0.0 ? forward_of<true, T, P>(args) : forward_of<false, T, P>(args);
    });
  });
}

void backward_any(const BiasDropoutResidualNormBwdArgs& args, DType dtype, DType parameters) {
  const RowBlocks blocks = row_blocks(args.T, args.C);
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(parameters, [&](auto parameter) HWY_ATTR {
      using T = decltype(type);
      using P = decltype(parameter);
      args.p > 0.0 ? backward_of<true, T, P>(args, blocks) : backward_of<false, T, P>(args, blocks);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(forward_any);
HWY_EXPORT(backward_any);

namespace {
void check_problem(const char* kernel, int64_t C, double p) {
  PLIMSOLL_CHECK(C >= 1 && C <= kMaxNormColumns, "{}: rows must have 1 to {} columns, but have {}", kernel,
                 kMaxNormColumns, C);
  PLIMSOLL_CHECK(p >= 0.0 && p < 1.0, "{}: the dropout probability must be in [0, 1), but is {}", kernel, p);
}
}  // namespace

void bias_dropout_residual_norm_fwd_cpu(const BiasDropoutResidualNormFwdArgs& args) {
  constexpr const char* kName = "bias_dropout_residual_norm_fwd_cpu";
  constexpr Operand::Presence kOptional = Operand::Presence::kOptional;
  const DType dtype = fast_type_of(kName, {{"x", args.x},
                                           {"y", args.y},
                                           {"residual", args.residual, kOptional},
                                           {"x_hat", args.x_hat, kOptional},
                                           {"sum", args.sum, kOptional}});
  const DType parameters = fast_type_of(
      kName, {{"gain", args.gain}, {"beta", args.beta, kOptional}, {"bias", args.bias, kOptional}});
  PLIMSOLL_CHECK(!args.rstd || args.rstd.dtype == DType::kF32, "{}: rstd must be f32, but is {}", kName,
                 dtype_name(args.rstd.dtype));
  check_problem(kName, args.C, args.p);
  HWY_DYNAMIC_DISPATCH(forward_any)(args, dtype, parameters);
}

void bias_dropout_residual_norm_bwd_cpu(const BiasDropoutResidualNormBwdArgs& args) {
  constexpr const char* kName = "bias_dropout_residual_norm_bwd_cpu";
  constexpr Operand::Presence kOptional = Operand::Presence::kOptional;
  const DType dtype = fast_type_of(kName, {{"d_y", args.d_y},
                                           {"x_hat", args.x_hat},
                                           {"d_y2", args.d_y2, kOptional},
                                           {"d_sum_term", args.d_sum_term, kOptional},
                                           {"d_residual", args.d_residual, kOptional},
                                           {"d_x", args.d_x, kOptional}});
  const DType parameters = fast_type_of(kName, {{"gain", args.gain}});
  PLIMSOLL_CHECK(args.rstd && args.rstd.dtype == DType::kF32, "{}: rstd must be present and f32", kName);
  PLIMSOLL_CHECK(args.scratch, "{} needs scratch memory for partial sums, but has none", kName);
  for (const Operand& sum :
       {Operand{"d_bias", args.d_bias, kOptional}, Operand{"d_gain", args.d_gain, kOptional},
        Operand{"d_beta", args.d_beta, kOptional}}) {
    check_column_sum(kName, sum, args.scratch);
  }
  check_problem(kName, args.C, args.p);
  HWY_DYNAMIC_DISPATCH(backward_any)(args, dtype, parameters);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
