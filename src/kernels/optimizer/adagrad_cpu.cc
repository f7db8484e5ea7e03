#include "kernels/optimizer/adagrad.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/update_piece_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adagrad_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

AdagradPieceFunction adagrad_piece_cpu() {
  return &HWY_DYNAMIC_DISPATCH(adagrad_piece);
}

AdagradPiece adagrad_coefficients(const AdagradArgs& args) {
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  return {.rate = static_cast<float>(adagrad_rate(args)),
          .clip = static_cast<float>(clip),
          .weight_decay = static_cast<float>(args.weight_decay),
          .epsilon = static_cast<float>(args.epsilon),
          .p = nullptr,
          .g = nullptr,
          .v = nullptr};
}

void adagrad_cpu(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  const AdagradPiece coefficients = adagrad_coefficients(args);
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kF32,
                   "Adagrad of {} weights, {} gradients, {} sums", dtype_name(tensor.param.dtype),
                   dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype));
  }
  const AdagradPieceFunction piece_function = adagrad_piece_cpu();
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    // What lies in 16 bits is fp32 for as long as it lies in the cache.
    float parameters[kTensorGrain];
    float gradients[kTensorGrain];
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
      const int64_t length = std::min(kTensorGrain, begin + count - first);
      AdagradPiece piece = coefficients;
      piece.p = parameter_to_change(tensor, first, length, parameters);
      piece.g = floats_of(tensor.grad, first, length, gradients);
      piece.v = tensor.m.as<float>() + first;
      piece_function(piece, length);
      store_parameter(piece.p, tensor, noise, first, length);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
