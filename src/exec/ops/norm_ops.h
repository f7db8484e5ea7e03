// The arguments of layer norms. Thread-safe: pure functions.
#pragma once

#include "exec/bound_op.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

NormalizeFwdArgs normalize_args(const BindContext& context);
NormalizeBwdArgs normalize_bwd_args(const BindContext& context);
BiasDropoutResidualNormFwdArgs fused_norm_args(const BindContext& context);
BiasDropoutResidualNormBwdArgs fused_norm_bwd_args(const BindContext& context);

}  // namespace plimsoll
