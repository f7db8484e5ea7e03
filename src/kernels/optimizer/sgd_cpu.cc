#include "kernels/optimizer/sgd.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/update_piece_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/sgd_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <SgdBuffer kBuffer, typename Tag>
HWY_INLINE void sgd_vector(Tag tag, const SgdPiece& c, int64_t i) {
  const auto p = hn::LoadU(tag, c.p + i);
  const auto clipped = hn::Mul(hn::LoadU(tag, c.g + i), hn::Set(tag, c.clip));
  const auto g = hn::MulAdd(hn::Set(tag, c.weight_decay), p, clipped);
  auto direction = g;
  if constexpr (kBuffer != SgdBuffer::kNone) {
    const auto momentum = hn::Set(tag, c.momentum);
    auto m = g;
    if constexpr (kBuffer == SgdBuffer::kContinue) m = hn::MulAdd(momentum, hn::LoadU(tag, c.m + i), g);
    hn::StoreU(m, tag, c.m + i);
    direction = c.nesterov ? hn::MulAdd(momentum, m, g) : m;
  }
  hn::StoreU(hn::NegMulAdd(hn::Set(tag, c.lr), direction, p), tag, c.p + i);
}

template <SgdBuffer kBuffer>
HWY_INLINE void sgd_elements(const SgdPiece& c, int64_t count) {
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sgd_vector<kBuffer>(tag, c, i);
  // The same operations in the same order, one element at a time.
  for (; i < count; ++i) sgd_vector<kBuffer>(hn::CappedTag<float, 1>(), c, i);
}

void sgd_piece(const SgdPiece& piece, int64_t count) {
  // A copy that no store through the arrays can alias stays in registers.
  const SgdPiece c = piece;
  switch (c.buffer) {
    case SgdBuffer::kNone:
      return sgd_elements<SgdBuffer::kNone>(c, count);
    case SgdBuffer::kStart:
      return sgd_elements<SgdBuffer::kStart>(c, count);
    case SgdBuffer::kContinue:
      return sgd_elements<SgdBuffer::kContinue>(c, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(sgd_piece);

SgdPieceFunction sgd_piece_cpu() {
  return &HWY_DYNAMIC_DISPATCH(sgd_piece);
}

SgdPiece sgd_coefficients(const SgdArgs& args) {
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0, "Nesterov needs a momentum");
  SgdBuffer buffer = SgdBuffer::kNone;
  if (args.momentum != 0.0) {
    buffer = args.step.as<int64_t>()[0] == 1 ? SgdBuffer::kStart : SgdBuffer::kContinue;
  }
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  return {.lr = static_cast<float>(args.learning_rate.load(0)),
          .clip = static_cast<float>(clip),
          .weight_decay = static_cast<float>(args.weight_decay),
          .momentum = static_cast<float>(args.momentum),
          .buffer = buffer,
          .nesterov = args.nesterov == Nesterov::kOn,
          .p = nullptr,
          .g = nullptr,
          .m = nullptr};
}

void sgd_cpu(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  const SgdPiece coefficients = sgd_coefficients(args);
  const bool has_momentum = args.momentum != 0.0;
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(
        is_updated_on_cpu(tensor) && !tensor.remainder && (!has_momentum || tensor.m.dtype == DType::kF32),
        "SGD of {} weights, {} gradients, {} momentum", dtype_name(tensor.param.dtype),
        dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype));
  }
  const SgdPieceFunction piece_function = sgd_piece_cpu();
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    // What lies in 16 bits is fp32 for as long as it lies in the cache.
    float parameters[kTensorGrain];
    float gradients[kTensorGrain];
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
      const int64_t length = std::min(kTensorGrain, begin + count - first);
      SgdPiece piece = coefficients;
      piece.p = parameter_to_change(tensor, first, length, parameters);
      piece.g = floats_of(tensor.grad, first, length, gradients);
      piece.m = has_momentum ? tensor.m.as<float>() + first : nullptr;
      piece_function(piece, length);
      store_parameter(piece.p, tensor, noise, first, length);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
