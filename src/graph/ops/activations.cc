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

// relu(x): y = max(x, 0). relu_bwd(y, d_y), which reads the output y instead of x: d_x = d_y where y > 0, and 0 elsewhere.
const OpSchema& relu_op() {
  static const ActivationOp op("relu", 1.0, ActivationGradientReads::kOutput, relu_bwd_op);
  return op;
}
const OpSchema& relu_bwd_op() {
  static const ActivationBwdOp op("relu_bwd", 1.0);
  return op;
}

// tanh(x): y = tanh(x). tanh_bwd(y, d_y), which reads the output y instead of x: d_x = d_y (1 - y^2).
const OpSchema& tanh_op() {
  static const ActivationOp op("tanh", 10.0, ActivationGradientReads::kOutput, tanh_bwd_op);
  return op;
}
const OpSchema& tanh_bwd_op() {
  static const ActivationBwdOp op("tanh_bwd", 10.0);
  return op;
}

}  // namespace plimsoll
