#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_norm_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const RunTimeOperands operands = run_time_operands(context);
  if (name == "normalize") {
    return [args = normalize_fwd_args(context), run = context.pick(normalize_fwd_ref, normalize_fwd_cpu)] {
      run(args);
    };
  }
  if (name == "normalize_bwd") {
    return [args = normalize_bwd_args(context), run = context.pick(normalize_bwd_ref, normalize_bwd_cpu)] {
      run(args);
    };
  }
  if (name == "bias_dropout_residual_norm") {
    return [args = fused_norm_fwd_args(context), operands,
            run = context.pick(bias_dropout_residual_norm_fwd_ref,
                               bias_dropout_residual_norm_fwd_cpu)]() mutable {
      args.where = read_site(operands.rng, operands.site);
      run(args);
    };
  }
  if (name == "bias_dropout_residual_norm_bwd") {
    return [args = fused_norm_bwd_args(context), operands,
            run = context.pick(bias_dropout_residual_norm_bwd_ref,
                               bias_dropout_residual_norm_bwd_cpu)]() mutable {
      args.where = read_site(operands.rng, operands.site);
      args.accumulate = read_flag(operands.accumulate);
      run(args);
    };
  }
  return {};
}

}  // namespace plimsoll
