// Lowers layer norms and RMS norms, that is, describes them as problems for their kernels.
#include <algorithm>

#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Describes an RMS norm of attention heads, which normalizes each head of a row separately as a vector. The op can have two gains, one for
// the query heads and one for the key heads. The problem has one row per token and head, where only the larger of the two numbers of heads
// counts.
template <int kX, int kGain>
LoweredOp describe_rms_norm(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  const int64_t vectors = std::max(op.attributes().integer("heads"), op.attributes().integer("second_heads"));
  return {.dtype = op.input(kX).type.dtype,
          .family = RowsProblem{.rows = op.in_shape(kX)[0].at(bucket) * vectors,
                                .columns = op.in_shape(kGain)[0].at(bucket)}};
}

}  // namespace

std::vector<Lowering> norm_lowerings() {
  return {{&normalize_op(), "normalize_fwd", describe_rows<NormalizeOp::kX>},
          {&normalize_bwd_op(), "normalize_bwd", describe_rows<NormalizeBwdOp::kN>},
          {&rms_norm_op(), "rms_norm_fwd", describe_rms_norm<RmsNormOp::kX, RmsNormOp::kGain>},
          {&rms_norm_bwd_op(), "rms_norm_bwd", describe_rms_norm<RmsNormBwdOp::kX, RmsNormBwdOp::kGain>},
          {&bias_dropout_residual_norm_op(), "bias_dropout_residual_norm_fwd",
           describe_rows<BiasDropoutResidualNormOp::kX>},
          {&bias_dropout_residual_norm_bwd_op(), "bias_dropout_residual_norm_bwd",
           describe_rows<BiasDropoutResidualNormBwdOp::kDY>}};
}

}  // namespace plimsoll
