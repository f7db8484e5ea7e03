#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion_8bit.h"
#include "kernels/optimizer/one_state_8bit.h"
#include "kernels/optimizer/update_piece_cpu.h"

namespace plimsoll {

void lion_8bit_cpu(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionPiece coefficients = lion_piece_coefficients(args);
  const LionPieceFunction piece_function = lion_piece_cpu();
  update_one_state_8bit_cpu("Lion", args, [&](float* p, const float* g, float* m, int64_t n) {
    LionPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.m = m;
    piece_function(piece, n);
  });
}

}  // namespace plimsoll
