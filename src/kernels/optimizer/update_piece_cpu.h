// Updates of contiguous pieces of fp32, dispatched to the CPU's best instruction set: what the kernels with
// fp32 states share with those that keep their states in 8 bits and update a block of them at a time.
// Internal to the folder. Thread-safe: pure.
#pragma once

#include <cstdint>

#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {

// The call's coefficients, rounded to fp32 once, and the arrays of a piece.
struct AdamwPiece {
  float decay, step_size, inverse_sqrt_bc2, one_minus_beta1, one_minus_beta2, clip, epsilon;
  float* p;
  const float* g;
  float* m;
  float* v;
};
struct LionPiece {
  float lr, decay, beta1, one_minus_beta1, one_minus_beta2, clip;
  float* p;
  const float* g;
  float* m;
};
// What happens to SGD's momentum.
enum class SgdBuffer : uint8_t { kNone, kStart, kContinue };
struct SgdPiece {
  float lr, clip, weight_decay, momentum;
  SgdBuffer buffer;
  bool nesterov;
  float* p;
  const float* g;
  float* m;  // null without momentum
};
struct AdagradPiece {
  float rate, clip, weight_decay, epsilon;
  float* p;
  const float* g;
  float* v;
};

// The call's coefficients, without arrays. Errors: kInternal for arguments that the contracts exclude.
SgdPiece sgd_coefficients(const SgdArgs& args);
LionPiece lion_piece_coefficients(const LionArgs& args);
AdagradPiece adagrad_coefficients(const AdagradArgs& args);

// The functions of adamw.h, lion.h, sgd.h and adagrad.h over `count` elements.
using AdamwPieceFunction = void (*)(const AdamwPiece&, int64_t count);
using LionPieceFunction = void (*)(const LionPiece&, int64_t count);
using SgdPieceFunction = void (*)(const SgdPiece&, int64_t count);
using AdagradPieceFunction = void (*)(const AdagradPiece&, int64_t count);
AdamwPieceFunction adamw_piece_cpu();
LionPieceFunction lion_piece_cpu();
SgdPieceFunction sgd_piece_cpu();
AdagradPieceFunction adagrad_piece_cpu();

}  // namespace plimsoll
