#include "kernels/optimizer/adagrad_8bit.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/one_state_8bit.h"
#include "kernels/optimizer/update_piece_cpu.h"

namespace plimsoll {

void adagrad_8bit_cpu(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  const AdagradPiece coefficients = adagrad_coefficients(args);
  const AdagradPieceFunction piece_function = adagrad_piece_cpu();
  update_one_state_8bit_cpu("Adagrad", args, [&](float* p, const float* g, float* v, int64_t n) {
    AdagradPiece piece = coefficients;
    piece.p = p;
    piece.g = g;
    piece.v = v;
    piece_function(piece, n);
  });
}

}  // namespace plimsoll
