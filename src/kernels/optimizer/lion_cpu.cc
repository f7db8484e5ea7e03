#include "kernels/optimizer/lion.h"

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/update_frame_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/lion_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Highway includes this file once per instruction set. The guard lets only the first inclusion declare the struct below.
#ifndef PLIMSOLL_KERNELS_OPTIMIZER_LION_CPU_ONCE_
#define PLIMSOLL_KERNELS_OPTIMIZER_LION_CPU_ONCE_
namespace plimsoll {

// The coefficients of a Lion update, rounded to fp32 once, and the arrays of the contiguous range of elements that is updated.
struct LionPiece {
  float lr, decay, beta1, one_minus_beta1, one_minus_beta2, clip;
  float* p;
  const float* g;
  float* m;
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Tag>
HWY_INLINE void lion_vector(Tag tag, const LionPiece& k, int64_t i) {
  const auto p = hn::LoadU(tag, k.p + i);
  const auto m = hn::LoadU(tag, k.m + i);
  const auto g = hn::Mul(hn::LoadU(tag, k.g + i), hn::Set(tag, k.clip));
  const auto c = hn::MulAdd(hn::Set(tag, k.beta1), m, hn::Mul(hn::Set(tag, k.one_minus_beta1), g));
  // `step` is lr times the sign of c. This sign is 0 if c is 0, and NaN if c is NaN.
  const auto is_signed = hn::Gt(hn::Abs(c), hn::Zero(tag));
  const auto step = hn::IfThenElse(is_signed, hn::CopySign(hn::Set(tag, k.lr), c), c);
  hn::StoreU(hn::MulAdd(hn::Set(tag, k.one_minus_beta2), hn::Sub(g, m), m), tag, k.m + i);
  hn::StoreU(hn::Sub(p, hn::MulAdd(hn::Set(tag, k.decay), p, step)), tag, k.p + i);
}

void lion_piece(const LionPiece& piece, int64_t count) {
  // Copies the arguments to a local variable. Stores through the array pointers cannot change it, so the compiler keeps the coefficients in
  // registers.
  const LionPiece k = piece;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) lion_vector(tag, k, i);
  // Updates the elements after the last whole SIMD vector one by one, with the operations of the vectors in the same order.
  for (; i < count; ++i) lion_vector(hn::CappedTag<float, 1>(), k, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(lion_piece);

namespace {

// Returns the function that updates a contiguous range of elements with the best instruction set of this CPU.
auto lion_update(const LionArgs& args) {
  const LionCoefficients k = lion_coefficients(args);
  const LionPiece coefficients{.lr = static_cast<float>(k.lr),
                               .decay = static_cast<float>(k.decay),
                               .beta1 = static_cast<float>(k.beta1),
                               .one_minus_beta1 = static_cast<float>(1.0 - k.beta1),
                               .one_minus_beta2 = static_cast<float>(1.0 - k.beta2),
                               .clip = static_cast<float>(k.clip),
                               .p = nullptr,
                               .g = nullptr,
                               .m = nullptr};
  return [coefficients, function = &HWY_DYNAMIC_DISPATCH(lion_piece)](float* p, const float* g, float* m,
                                                                      float*, int64_t n) {
    LionPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.m = m;
    function(piece, n);
  };
}

constexpr CpuUpdate kLion{.name = "Lion", .states = UpdateStates::kM};

}  // namespace

void lion_cpu(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_cpu(kLion, args, lion_update(args));
}

void lion_8bit_cpu(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_eight_bit_tensors_cpu(kLion, args, lion_update(args));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
