// tanh(x). tanh_bwd(y, d_y): d_x = d_y (1 - y^2), from the output.
#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"

namespace plimsoll {

const OpSchema& tanh_op() {
  static const ActivationOp op("tanh", 10.0, ActivationGradientReads::kOutput, tanh_bwd_op);
  return op;
}
const OpSchema& tanh_bwd_op() {
  static const ActivationBwdOp op("tanh_bwd", 10.0);
  return op;
}

}  // namespace plimsoll
