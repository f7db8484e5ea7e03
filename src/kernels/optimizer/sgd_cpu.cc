#include "kernels/optimizer/sgd.h"

#include "device/cpu/simd_targets.h"
#include "kernels/optimizer/update_frame_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/sgd_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Highway includes this file once per instruction set. The guard lets only the first inclusion declare the types below.
#ifndef PLIMSOLL_KERNELS_OPTIMIZER_SGD_CPU_ONCE_
#define PLIMSOLL_KERNELS_OPTIMIZER_SGD_CPU_ONCE_
namespace plimsoll {

// States how this step uses the momentum: it is not used, it is initialized (step 1), or it is updated (a later step).
enum class SgdBuffer : uint8_t { kNone, kStart, kContinue };

// The coefficients of an SGD update, rounded to fp32 once, and the arrays of the contiguous range of elements that is updated.
struct SgdPiece {
  float lr, clip, weight_decay, momentum;
  SgdBuffer buffer;
  bool nesterov;
  float* p;
  const float* g;
  float* m;  // the momentum; null if the optimizer has none
};

}  // namespace plimsoll
#endif

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
  // Updates the elements after the last whole SIMD vector one by one, with the operations of the vectors in the same order.
  for (; i < count; ++i) sgd_vector<kBuffer>(hn::CappedTag<float, 1>(), c, i);
}

void sgd_piece(const SgdPiece& piece, int64_t count) {
  // Copies the arguments to a local variable. Stores through the array pointers cannot change it, so the compiler keeps the coefficients in
  // registers.
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

namespace {

SgdBuffer use_of_momentum(const SgdArgs& args) {
  if (args.momentum == 0.0) return SgdBuffer::kNone;
  return args.step.as<int64_t>()[0] == 1 ? SgdBuffer::kStart : SgdBuffer::kContinue;
}

// Returns the function that updates a contiguous range of elements with the best instruction set of this CPU.
auto sgd_update(const SgdArgs& args) {
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0,
                 "SGD with Nesterov needs momentum above 0");
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  const SgdPiece coefficients{.lr = static_cast<float>(args.learning_rate.load(0)),
                              .clip = static_cast<float>(clip),
                              .weight_decay = static_cast<float>(args.weight_decay),
                              .momentum = static_cast<float>(args.momentum),
                              .buffer = use_of_momentum(args),
                              .nesterov = args.nesterov == Nesterov::kOn,
                              .p = nullptr,
                              .g = nullptr,
                              .m = nullptr};
  return [coefficients, function = &HWY_DYNAMIC_DISPATCH(sgd_piece)](float* p, const float* g, float* m,
                                                                     float*, int64_t n) {
    SgdPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.m = m;
    function(piece, n);
  };
}

}  // namespace

void sgd_cpu(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  const UpdateStates states = args.momentum != 0.0 ? UpdateStates::kM : UpdateStates::kNone;
  update_tensors_cpu({.name = "SGD", .states = states}, args, sgd_update(args));
}

void sgd_8bit_cpu(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD needs momentum above 0, but it is {}", args.momentum);
  update_eight_bit_tensors_cpu({.name = "SGD", .states = UpdateStates::kM}, args, sgd_update(args));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
