#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/one_state_8bit.h"
#include "kernels/optimizer/sgd_8bit.h"
#include "kernels/optimizer/update_piece_cpu.h"

namespace plimsoll {

void sgd_8bit_cpu(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD has a momentum, this one is {}", args.momentum);
  const SgdPiece coefficients = sgd_coefficients(args);
  const SgdPieceFunction piece_function = sgd_piece_cpu();
  update_one_state_8bit_cpu("SGD", args, [&](float* p, const float* g, float* m, int64_t n) {
    SgdPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.m = m;
    piece_function(piece, n);
  });
}

}  // namespace plimsoll
