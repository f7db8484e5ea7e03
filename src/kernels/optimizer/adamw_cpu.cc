#include "kernels/optimizer/adamw.h"

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/update_frame_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adamw_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Highway includes this file once per instruction set. The guard lets only the first inclusion declare the struct below.
#ifndef PLIMSOLL_KERNELS_OPTIMIZER_ADAMW_CPU_ONCE_
#define PLIMSOLL_KERNELS_OPTIMIZER_ADAMW_CPU_ONCE_
namespace plimsoll {

// The coefficients of an AdamW update, rounded to fp32 once, and the arrays of the contiguous range of elements that is updated.
struct AdamwPiece {
  float decay, step_size, inverse_sqrt_bc2, one_minus_beta1, one_minus_beta2, clip, epsilon;
  float* p;
  const float* g;
  float* m;
  float* v;
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Tag>
HWY_INLINE void adamw_vector(Tag tag, const AdamwPiece& c, int64_t i) {
  const auto p = hn::LoadU(tag, c.p + i);
  const auto m = hn::LoadU(tag, c.m + i);
  const auto v = hn::LoadU(tag, c.v + i);
  const auto g = hn::Mul(hn::LoadU(tag, c.g + i), hn::Set(tag, c.clip));
  const auto new_m = hn::MulAdd(hn::Set(tag, c.one_minus_beta1), hn::Sub(g, m), m);
  const auto new_v = hn::MulAdd(hn::Set(tag, c.one_minus_beta2), hn::MulSub(g, g, v), v);
  const auto denominator =
      hn::MulAdd(hn::Sqrt(new_v), hn::Set(tag, c.inverse_sqrt_bc2), hn::Set(tag, c.epsilon));
  const auto adam = hn::Div(hn::Mul(hn::Set(tag, c.step_size), new_m), denominator);
  const auto new_p = hn::Sub(p, hn::MulAdd(hn::Set(tag, c.decay), p, adam));
  hn::StoreU(new_m, tag, c.m + i);
  hn::StoreU(new_v, tag, c.v + i);
  hn::StoreU(new_p, tag, c.p + i);
}

void adamw_piece(const AdamwPiece& piece, int64_t count) {
  // Copies the arguments to a local variable. Stores through the array pointers cannot change it, so the compiler keeps the coefficients in
  // registers.
  const AdamwPiece c = piece;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) adamw_vector(tag, c, i);
  // Updates the elements after the last whole SIMD vector one by one, with the operations of the vectors in the same order.
  for (; i < count; ++i) adamw_vector(hn::CappedTag<float, 1>(), c, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(adamw_piece);

namespace {

// Returns the function that updates a contiguous range of elements with the best instruction set of this CPU.
auto adamw_update(const AdamwArgs& args) {
  const AdamwCoefficients c = adamw_coefficients(args);
  const AdamwPiece coefficients{.decay = static_cast<float>(c.decay),
                                .step_size = static_cast<float>(c.step_size),
                                .inverse_sqrt_bc2 = static_cast<float>(c.inverse_sqrt_bc2),
                                .one_minus_beta1 = static_cast<float>(c.one_minus_beta1),
                                .one_minus_beta2 = static_cast<float>(c.one_minus_beta2),
                                .clip = static_cast<float>(c.clip),
                                .epsilon = static_cast<float>(args.epsilon),
                                .p = nullptr,
                                .g = nullptr,
                                .m = nullptr,
                                .v = nullptr};
  return [coefficients, function = &HWY_DYNAMIC_DISPATCH(adamw_piece)](float* p, const float* g, float* m,
                                                                       float* v, int64_t n) {
    AdamwPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.m = m;
    piece.v = v;
    function(piece, n);
  };
}

constexpr CpuUpdate kAdamw{.name = "AdamW",
                           .states = UpdateStates::kMAndV,
                           .takes_bf16_states = true,
                           .takes_split_parameters = true};

}  // namespace

void adamw_cpu(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_cpu(kAdamw, args, adamw_update(args));
}

void adamw_8bit_cpu(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_eight_bit_tensors_cpu(kAdamw, args, adamw_update(args));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
