#include "kernels/optimizer/lion.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/update_piece_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/lion_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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
  // 0 and NaN are their own signs.
  const auto is_signed = hn::Gt(hn::Abs(c), hn::Zero(tag));
  const auto step = hn::IfThenElse(is_signed, hn::CopySign(hn::Set(tag, k.lr), c), c);
  hn::StoreU(hn::MulAdd(hn::Set(tag, k.one_minus_beta2), hn::Sub(g, m), m), tag, k.m + i);
  hn::StoreU(hn::Sub(p, hn::MulAdd(hn::Set(tag, k.decay), p, step)), tag, k.p + i);
}

void lion_piece(const LionPiece& piece, int64_t count) {
  // A copy that no store through the arrays can alias stays in registers.
  const LionPiece k = piece;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) lion_vector(tag, k, i);
  // The same operations in the same order, one element at a time.
  for (; i < count; ++i) lion_vector(hn::CappedTag<float, 1>(), k, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(lion_piece);

LionPieceFunction lion_piece_cpu() {
  return &HWY_DYNAMIC_DISPATCH(lion_piece);
}

LionPiece lion_piece_coefficients(const LionArgs& args) {
  const LionCoefficients k = lion_coefficients(args);
  return {.lr = static_cast<float>(k.lr),
          .decay = static_cast<float>(k.decay),
          .beta1 = static_cast<float>(k.beta1),
          .one_minus_beta1 = static_cast<float>(1.0 - k.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - k.beta2),
          .clip = static_cast<float>(k.clip),
          .p = nullptr,
          .g = nullptr,
          .m = nullptr};
}

void lion_cpu(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionPiece coefficients = lion_piece_coefficients(args);
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kF32,
                   "Lion of {} weights, {} gradients, {} momentum", dtype_name(tensor.param.dtype),
                   dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype));
  }
  const LionPieceFunction piece_function = lion_piece_cpu();
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    // What lies in 16 bits is fp32 for as long as it lies in the cache.
    float parameters[kTensorGrain];
    float gradients[kTensorGrain];
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
      const int64_t length = std::min(kTensorGrain, begin + count - first);
      float* p = parameter_to_change(tensor, first, length, parameters);
      LionPiece piece = coefficients;
      piece.p = p;
      piece.g = floats_of(tensor.grad, first, length, gradients);
      piece.m = tensor.m.as<float>() + first;
      piece_function(piece, length);
      store_parameter(p, tensor, noise, first, length);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
