#include "kernels/optimizer/adamw.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/update_piece_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adamw_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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
  // A copy that no store through the arrays can alias stays in registers.
  const AdamwPiece c = piece;
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) adamw_vector(tag, c, i);
  // The same operations in the same order, one element at a time.
  for (; i < count; ++i) adamw_vector(hn::CappedTag<float, 1>(), c, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(adamw_piece);

AdamwPieceFunction adamw_piece_cpu() {
  return &HWY_DYNAMIC_DISPATCH(adamw_piece);
}

void adamw_cpu(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  const AdamwCoefficients c = adamw_coefficients(args);
  const auto is_moment = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && is_moment(tensor.m.dtype) && is_moment(tensor.v.dtype),
                   "AdamW of {} weights, {} gradients, {} and {} moments", dtype_name(tensor.param.dtype),
                   dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype), dtype_name(tensor.v.dtype));
  }
  const AdamwPieceFunction piece_function = adamw_piece_cpu();
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    const auto update = [&](float* p, const float* g, float* m, float* v, int64_t length) {
      piece_function(AdamwPiece{.decay = static_cast<float>(c.decay),
                                .step_size = static_cast<float>(c.step_size),
                                .inverse_sqrt_bc2 = static_cast<float>(c.inverse_sqrt_bc2),
                                .one_minus_beta1 = static_cast<float>(c.one_minus_beta1),
                                .one_minus_beta2 = static_cast<float>(c.one_minus_beta2),
                                .clip = static_cast<float>(c.clip),
                                .epsilon = static_cast<float>(args.epsilon),
                                .p = p,
                                .g = g,
                                .m = m,
                                .v = v},
                     length);
    };
    if (tensor.param.dtype == DType::kF32 && tensor.grad.dtype == DType::kF32 &&
        tensor.m.dtype == DType::kF32 && tensor.v.dtype == DType::kF32) {
      update(tensor.param.as<float>() + begin, tensor.grad.as<float>() + begin, tensor.m.as<float>() + begin,
             tensor.v.as<float>() + begin, count);
      store_low_copy(tensor, begin, count);
      return;
    }
    // What lies in 16 bits is fp32 for as long as it lies in the cache.
    float parameters[kTensorGrain];
    float gradients[kTensorGrain];
    float first_moments[kTensorGrain];
    float second_moments[kTensorGrain];
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
      const int64_t length = std::min(kTensorGrain, begin + count - first);
      float* p = parameter_to_change(tensor, first, length, parameters);
      float* m = floats_to_change(tensor.m, first, length, first_moments);
      float* v = floats_to_change(tensor.v, first, length, second_moments);
      update(p, floats_of(tensor.grad, first, length, gradients), m, v, length);
      narrow_piece(m, tensor.m, first, length);
      if (v == second_moments) {
        round_piece(v, tensor.v, {noise_of_second_moment(noise), tensor.first}, first, length);
      }
      store_parameter(p, tensor, noise, first, length);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
