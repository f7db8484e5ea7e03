// Updates of contiguous pieces of fp32, dispatched to the CPU's best instruction set: what the kernels with
// fp32 states share with those that keep their states in 8 bits and update a block of them at a time.
// Internal to the folder. Thread-safe: pure.
#pragma once

#include <cstdint>

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

// The functions of adamw.h and lion.h over `count` elements.
using AdamwPieceFunction = void (*)(const AdamwPiece&, int64_t count);
using LionPieceFunction = void (*)(const LionPiece&, int64_t count);
AdamwPieceFunction adamw_piece_cpu();
LionPieceFunction lion_piece_cpu();

}  // namespace plimsoll
