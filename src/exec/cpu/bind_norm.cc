#include "exec/cpu/bind_cpu.h"
#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_norm_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const RunTimeOperands operands = run_time_operands(context);
  if (name == "normalize") {
    return given(context.pick(normalize_fwd_ref, normalize_fwd_cpu), normalize_fwd_args(context));
  }
  if (name == "normalize_bwd") {
    return given(context.pick(normalize_bwd_ref, normalize_bwd_cpu), normalize_bwd_args(context));
  }
  if (name == "bias_dropout_residual_norm") {
    return given(context.pick(bias_dropout_residual_norm_fwd_ref, bias_dropout_residual_norm_fwd_cpu),
                 fused_norm_fwd_args(context), [operands](BiasDropoutResidualNormFwdArgs& now) {
                   now.where = read_site(operands.rng, operands.site);
                 });
  }
  if (name == "bias_dropout_residual_norm_bwd") {
    return given(context.pick(bias_dropout_residual_norm_bwd_ref, bias_dropout_residual_norm_bwd_cpu),
                 fused_norm_bwd_args(context), [operands](BiasDropoutResidualNormBwdArgs& now) {
                   now.where = read_site(operands.rng, operands.site);
                   now.accumulate = read_flag(operands.accumulate);
                 });
  }
  return {};
}

}  // namespace plimsoll
