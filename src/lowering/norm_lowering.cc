// The description of layer norms.
#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {

std::vector<Lowering> norm_lowerings() {
  return {{&normalize_op(), "normalize_fwd", describe_rows<NormalizeOp::kX>},
          {&normalize_bwd_op(), "normalize_bwd", describe_rows<NormalizeBwdOp::kN>},
          {&bias_dropout_residual_norm_op(), "bias_dropout_residual_norm_fwd",
           describe_rows<BiasDropoutResidualNormOp::kX>},
          {&bias_dropout_residual_norm_bwd_op(), "bias_dropout_residual_norm_bwd",
           describe_rows<BiasDropoutResidualNormBwdOp::kDY>}};
}

}  // namespace plimsoll
