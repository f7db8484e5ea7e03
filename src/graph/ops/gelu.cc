// gelu(x): y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks and Gimpel, arXiv 1606.08415), or the activation f that the
// attribute names. gelu_bwd(x, d_y): d_x = d_y f'(x).
#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"

namespace plimsoll {

const OpSchema& gelu_op() {
  static const ActivationOp op("gelu", 10.0, ActivationGradientReads::kInput, gelu_bwd_op);
  return op;
}
const OpSchema& gelu_bwd_op() {
  static const ActivationBwdOp op("gelu_bwd", 10.0);
  return op;
}

}  // namespace plimsoll
