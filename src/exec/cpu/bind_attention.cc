#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_attention_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "first_token_attention") {
    return [args = first_token_attention_args(context)] { first_token_attention_ref(args); };
  }
  if (name != "attention" && name != "attention_bwd") return {};
  const auto ready = [operands = run_time_operands(context)](auto args, auto* run) -> std::function<void()> {
    return [args, operands, run]() mutable {
      args.options.random = read_site(operands.rng, operands.site);
      run(args);
    };
  };
  if (name == "attention") {
    return ready(attention_fwd_args(context), context.pick(attention_fwd_ref, attention_fwd_cpu));
  }
  return ready(attention_bwd_args(context), context.pick(attention_bwd_ref, attention_bwd_cpu));
}

}  // namespace plimsoll
