#include "kernels/optimizer/adagrad.h"

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/update_frame_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adagrad_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Highway includes this file once per instruction set. The guard lets only the first inclusion declare the struct below.
#ifndef PLIMSOLL_KERNELS_OPTIMIZER_ADAGRAD_CPU_ONCE_
#define PLIMSOLL_KERNELS_OPTIMIZER_ADAGRAD_CPU_ONCE_
namespace plimsoll {

// The coefficients of an Adagrad update, rounded to fp32 once, and the arrays of the contiguous range of elements that is updated.
struct AdagradPiece {
  float rate, clip, weight_decay, epsilon;
  float* p;
  const float* g;
  float* v;
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Tag>
HWY_INLINE void adagrad_vector(Tag tag, const AdagradPiece& k, int64_t i) {
  const auto p = hn::LoadU(tag, k.p + i);
  const auto clipped = hn::Mul(hn::LoadU(tag, k.g + i), hn::Set(tag, k.clip));
  const auto g = hn::MulAdd(hn::Set(tag, k.weight_decay), p, clipped);
  const auto v = hn::MulAdd(g, g, hn::LoadU(tag, k.v + i));
  const auto denominator = hn::Add(hn::Sqrt(v), hn::Set(tag, k.epsilon));
  hn::StoreU(v, tag, k.v + i);
  hn::StoreU(hn::NegMulAdd(hn::Set(tag, k.rate), hn::Div(g, denominator), p), tag, k.p + i);
}

void adagrad_piece(const AdagradPiece& piece, int64_t count) {
  // Copies the arguments to a local variable. Stores through the array pointers cannot change it, so the compiler keeps the coefficients in
  // registers.
  const AdagradPiece k = piece;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) adagrad_vector(tag, k, i);
  // Updates the elements after the last whole SIMD vector one by one, with the operations of the vectors in the same order.
  for (; i < count; ++i) adagrad_vector(hn::CappedTag<float, 1>(), k, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(adagrad_piece);

namespace {

// Returns the function that updates a contiguous range of elements with the best instruction set of this CPU; m is the sum of squares v.
auto adagrad_update(const AdagradArgs& args) {
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  const AdagradPiece coefficients{.rate = static_cast<float>(adagrad_rate(args)),
                                  .clip = static_cast<float>(clip),
                                  .weight_decay = static_cast<float>(args.weight_decay),
                                  .epsilon = static_cast<float>(args.epsilon),
                                  .p = nullptr,
                                  .g = nullptr,
                                  .v = nullptr};
  return [coefficients, function = &HWY_DYNAMIC_DISPATCH(adagrad_piece)](float* p, const float* g, float* m,
                                                                         float*, int64_t n) {
    AdagradPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.v = m;
    function(piece, n);
  };
}

constexpr CpuUpdate kAdagrad{.name = "Adagrad", .states = UpdateStates::kM};

}  // namespace

void adagrad_cpu(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_cpu(kAdagrad, args, adagrad_update(args));
}

void adagrad_8bit_cpu(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_eight_bit_tensors_cpu(kAdagrad, args, adagrad_update(args));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
