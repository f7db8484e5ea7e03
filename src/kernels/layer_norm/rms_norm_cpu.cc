#include "kernels/layer_norm/rms_norm.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/rms_norm_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/element_wise/chunks.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/column_sums-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"
#include "kernels/layer_norm/norm_row-inl.h"

#ifndef PLIMSOLL_RMS_NORM_CPU_TYPES_
#define PLIMSOLL_RMS_NORM_CPU_TYPES_
namespace plimsoll {
namespace {

// The vectors of each row to which one gain applies: `count` of them, starting with vector number `first`.
struct RmsNormPart {
  RmsNormDims dims;
  int64_t first = 0;
  int64_t count = 0;

  // Return the index of the first element, and the index in rstd, of vector number r. These vectors are numbered from 0 to T * count - 1.
  int64_t element(int64_t r) const { return r / count * dims.N + (first + r % count) * dims.C; }
  int64_t place(int64_t r) const { return r / count * (dims.H + dims.G) + first + r % count; }
};

}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

// Returns a sum over the columns of a vector. term(access, c, sum) must return the vector of partial sums `sum` plus the terms of the
// columns from c on; `access` loads the elements of these columns as one vector.
template <class Term>
HWY_INLINE float sum_over_columns(int64_t C, const Term& term) {
  F32Vec total = hn::Zero(F32Tag());
  for_each_column_group(C, [&](int64_t begin, int64_t end) HWY_ATTR {
    GroupSum sum = zero_group_sum();
    for_each_vector_of_group(begin, end, [&](auto access, int64_t c, auto part) HWY_ATTR {
      part.of(sum) = term(access, c, part.of(sum));
    });
    total = hn::Add(total, group_total(sum));
  });
  return lanes_total(total);
}

template <class T, class P>
void rms_norm_fwd_of(const RmsNormFwdArgs& args, const RmsNormPart& part, const ConstView& gain_view) {
  const int64_t C = part.dims.C;
  const P* gain = elements<P>(gain_view);
  float* rstds = elements<float>(args.rstd);
  for_each_row(part.dims.T * part.count, C, [&](int64_t r) HWY_ATTR {
    const F32Tag d;
    const T* x = elements<T>(args.x) + part.element(r);
    T* y = elements<T>(args.y) + part.element(r);
    if (args.residual) {
      const T* residual = elements<T>(args.residual) + part.element(r);
      T* stored = elements<T>(args.sum) + part.element(r);
      for_each_vector(d, 0, C, [&](auto access, int64_t c) HWY_ATTR {
        access.store(d, hn::Add(access.load(d, x + c), access.load(d, residual + c)), stored + c);
      });
      x = stored;
    }
    const float squares = sum_over_columns(C, [&](auto access, int64_t c, F32Vec sum) HWY_ATTR {
      const F32Vec value = access.load(d, x + c);
      return hn::MulAdd(value, value, sum);
    });
    const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(C) + static_cast<float>(args.eps));
    if (rstds != nullptr) rstds[part.place(r)] = rstd;
    const F32Vec factor = hn::Set(d, rstd);
    for_each_vector(d, 0, C, [&](auto access, int64_t c) HWY_ATTR {
      access.store(d, hn::Mul(hn::Mul(access.load(d, x + c), factor), access.load(d, gain + c)), y + c);
    });
  });
}

// Computes d_x of one vector and adds its terms to the sums for d_gain.
template <class T, class P>
HWY_INLINE void rms_norm_bwd_vector(const T* d_y, const T* x, const P* gain, const T* d_sum_term, float rstd,
                                    int64_t C, T* d_x, float* sums) {
  const F32Tag d;
  const F32Vec factor = hn::Set(d, rstd);
  const float product = sum_over_columns(C, [&](auto access, int64_t c, F32Vec sum) HWY_ATTR {
    const F32Vec g = hn::Mul(access.load(d, d_y + c), access.load(d, gain + c));
    return hn::MulAdd(g, hn::Mul(access.load(d, x + c), factor), sum);
  });
  const F32Vec mean = hn::Set(d, product / static_cast<float>(C));
  for_each_vector(d, 0, C, [&](auto access, int64_t c) HWY_ATTR {
    const F32Vec from = access.load(d, d_y + c);
    const F32Vec x_hat = hn::Mul(access.load(d, x + c), factor);
    const F32Vec g = hn::Mul(from, access.load(d, gain + c));
    F32Vec value = hn::Mul(factor, hn::NegMulAdd(x_hat, mean, g));
    if (d_sum_term != nullptr) value = hn::Add(value, access.load(d, d_sum_term + c));
    access.store(d, value, d_x + c);
    access.store(d, hn::MulAdd(from, x_hat, access.load(d, sums + c)), sums + c);
  });
}

template <class T, class P>
void rms_norm_bwd_of(const RmsNormBwdArgs& args, const RmsNormPart& part, const ConstView& gain_view,
                     const View& d_gain) {
  const int64_t C = part.dims.C, vectors = part.dims.T * part.count;
  const RowBlocks blocks = rms_norm_blocks(part.dims.T, part.count, std::max(part.dims.H, part.dims.G), C);
  const float* rstds = elements<float>(args.rstd);
  parallel_for(blocks.num_blocks, [&](int64_t block, int) HWY_ATTR {
    float* sums = partial_sums(args.scratch, blocks, C, 0, block);
    zero_partial_sums(sums, C);
    const int64_t end = std::min(vectors, (block + 1) * blocks.rows_per_block);
    for (int64_t r = block * blocks.rows_per_block; r < end; ++r) {
      const int64_t at = part.element(r);
      const T* d_sum_term = args.d_sum_term ? elements<T>(args.d_sum_term) + at : nullptr;
      rms_norm_bwd_vector(elements<T>(args.d_y) + at, elements<T>(args.x) + at, elements<P>(gain_view),
                          d_sum_term, rstds[part.place(r)], C, elements<T>(args.d_x) + at, sums);
    }
  });
  add_up_blocks(args.scratch, blocks, C, {d_gain}, args.accumulate);
}

void rms_norm_fwd_any(const RmsNormFwdArgs& args, const RmsNormPart& part, const ConstView& gain,
                      DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(gain.dtype, [&](auto parameter) HWY_ATTR {
      rms_norm_fwd_of<decltype(type), decltype(parameter)>(args, part, gain);
    });
  });
}
void rms_norm_bwd_any(const RmsNormBwdArgs& args, const RmsNormPart& part, const ConstView& gain,
                      const View& d_gain, DType dtype) {
  with_fast_type(dtype, [&](auto type) HWY_ATTR {
    with_fast_type(gain.dtype, [&](auto parameter) HWY_ATTR {
      rms_norm_bwd_of<decltype(type), decltype(parameter)>(args, part, gain, d_gain);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(rms_norm_fwd_any);
HWY_EXPORT(rms_norm_bwd_any);

namespace {

void check_dims(const char* kernel, const RmsNormDims& dims, const ConstView& second_gain) {
  PLIMSOLL_CHECK(dims.C >= 1 && dims.H >= 1 && dims.G >= 0 && (dims.H + dims.G) * dims.C <= dims.N,
                 "{}: the vectors of both gains must fit into a row, but there are {} and {} vectors of {} "
                 "elements in rows of {}",
                 kernel, dims.H, dims.G, dims.C, dims.N);
  PLIMSOLL_CHECK(dims.G == 0 || second_gain,
                 "{} needs second_gain, because some vectors use it, but it is missing", kernel);
}

// Copies those elements of each row that are stored after the normalized vectors.
void copy_rest(const RmsNormDims& dims, const ConstView& from, const View& to) {
  const int64_t width = dtype_bytes(from.dtype), first = (dims.H + dims.G) * dims.C;
  if (from.data == to.data || first == dims.N) return;
  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  for_each_row(dims.T, dims.N - first, [&](int64_t t) {
    const int64_t at = (t * dims.N + first) * width;
    std::memcpy(target + at, source + at, static_cast<size_t>((dims.N - first) * width));
  });
}

}  // namespace

void rms_norm_fwd_cpu(const RmsNormFwdArgs& args) {
  const DType dtype =
      fast_type_of("rms_norm_fwd_cpu", {{"x", args.x},
                                        {"y", args.y},
                                        {"residual", args.residual, Operand::Presence::kOptional},
                                        {"sum", args.sum, Operand::Presence::kOptional}});
  check_dims("rms_norm_fwd_cpu", args.dims, args.second_gain);
  check_rms_norm_residual("rms_norm_fwd_cpu", args);
  fast_type_of("rms_norm_fwd_cpu", {{"gain", args.gain}});
  const RmsNormDims& dims = args.dims;
  HWY_DYNAMIC_DISPATCH(rms_norm_fwd_any)(args, {dims, 0, dims.H}, args.gain, dtype);
  if (dims.G > 0)
    HWY_DYNAMIC_DISPATCH(rms_norm_fwd_any)(args, {dims, dims.H, dims.G}, args.second_gain, dtype);
  copy_rest(dims, args.x, args.y);
}

void rms_norm_bwd_cpu(const RmsNormBwdArgs& args) {
  const DType dtype =
      fast_type_of("rms_norm_bwd_cpu", {{"d_y", args.d_y},
                                        {"x", args.x},
                                        {"d_x", args.d_x},
                                        {"d_sum_term", args.d_sum_term, Operand::Presence::kOptional}});
  check_dims("rms_norm_bwd_cpu", args.dims, args.second_gain);
  fast_type_of("rms_norm_bwd_cpu", {{"gain", args.gain}});
  check_column_sum("rms_norm_bwd_cpu", {"d_gain", args.d_gain}, args.scratch);
  const RmsNormDims& dims = args.dims;
  HWY_DYNAMIC_DISPATCH(rms_norm_bwd_any)(args, {dims, 0, dims.H}, args.gain, args.d_gain, dtype);
  if (dims.G > 0) {
    check_column_sum("rms_norm_bwd_cpu", {"d_second_gain", args.d_second_gain}, args.scratch);
    HWY_DYNAMIC_DISPATCH(rms_norm_bwd_any)
    (args, {dims, dims.H, dims.G}, args.second_gain, args.d_second_gain, dtype);
  }
  copy_rest(dims, args.d_y, args.d_x);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
