// relu(x): y = max(x, 0). relu_bwd(y, d_y): d_x = d_y where y > 0, from the output.
#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"

namespace plimsoll {

const OpSchema& relu_op() {
  static const ActivationOp op("relu", 1.0, ActivationGradientReads::kOutput, relu_bwd_op);
  return op;
}
const OpSchema& relu_bwd_op() {
  static const ActivationBwdOp op("relu_bwd", 1.0);
  return op;
}

}  // namespace plimsoll
