#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion_8bit.h"
#include "kernels/optimizer/one_state_8bit.h"
#include "kernels/optimizer/update_piece_cpu.h"

namespace plimsoll {

void lion_8bit_cpu(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionCoefficients k = lion_coefficients(args);
  const LionPieceFunction piece_function = lion_piece_cpu();
  update_one_state_8bit_cpu("Lion", args, [&](float* p, const float* g, float* m, int64_t n) {
    piece_function(LionPiece{.lr = static_cast<float>(k.lr),
                             .decay = static_cast<float>(k.decay),
                             .beta1 = static_cast<float>(k.beta1),
                             .one_minus_beta1 = static_cast<float>(1.0 - k.beta1),
                             .one_minus_beta2 = static_cast<float>(1.0 - k.beta2),
                             .clip = static_cast<float>(k.clip),
                             .p = p,
                             .g = g,
                             .m = m},
                   n);
  });
}

}  // namespace plimsoll
