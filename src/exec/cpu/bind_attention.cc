#include "exec/cpu/bind_cpu.h"
#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_attention_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name == "first_token_attention")
    return given(first_token_attention_ref, first_token_attention_args(context));
  if (name != "attention" && name != "attention_bwd") return {};
  const auto read = [operands = run_time_operands(context)](auto& now) {
    now.options.random = read_site(operands.rng, operands.site);
  };
  if (name == "attention") {
    return given(context.pick(attention_fwd_ref, attention_fwd_cpu), attention_fwd_args(context), read);
  }
  return given(context.pick(attention_bwd_ref, attention_bwd_cpu), attention_bwd_args(context), read);
}

}  // namespace plimsoll
