#include "kernels/optimizer/adagrad.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/piece_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adagrad_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef PLIMSOLL_KERNELS_OPTIMIZER_ADAGRAD_CPU_ONCE_
#define PLIMSOLL_KERNELS_OPTIMIZER_ADAGRAD_CPU_ONCE_
namespace plimsoll {
// The call's coefficients, rounded to fp32 once, and the arrays of a piece.
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
  // A copy that no store through the arrays can alias stays in registers.
  const AdagradPiece k = piece;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) adagrad_vector(tag, k, i);
  // The same operations in the same order, one element at a time.
  for (; i < count; ++i) adagrad_vector(hn::CappedTag<float, 1>(), k, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(adagrad_piece);

void adagrad_cpu(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  const double rate = adagrad_rate(args);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kF32,
                   "Adagrad of {} weights, {} gradients, {} sums", dtype_name(tensor.param.dtype),
                   dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype));
  }
  const auto piece_function = &HWY_DYNAMIC_DISPATCH(adagrad_piece);
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    // What lies in 16 bits is fp32 for as long as it lies in the cache.
    float parameters[kTensorGrain];
    float gradients[kTensorGrain];
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
      const int64_t length = std::min(kTensorGrain, begin + count - first);
      float* p = parameter_to_change(tensor, first, length, parameters);
      piece_function(AdagradPiece{.rate = static_cast<float>(rate),
                                  .clip = static_cast<float>(clip),
                                  .weight_decay = static_cast<float>(args.weight_decay),
                                  .epsilon = static_cast<float>(args.epsilon),
                                  .p = p,
                                  .g = floats_of(tensor.grad, first, length, gradients),
                                  .v = tensor.m.as<float>() + first},
                     length);
      store_parameter(p, tensor, noise, first, length);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
