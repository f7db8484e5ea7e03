#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_embedding_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const int64_t sequences = context.bucket().sequences;
  const RunTimeOperands operands = run_time_operands(context);
  if (name == "embedding_sum") {
    return [args = embedding_sum_args(context), sequences, operands,
            run = context.pick(embedding_sum_fwd_ref, embedding_sum_fwd_cpu)]() mutable {
      args.num_tokens = read_integer(operands.cu_seqlens, sequences);
      run(args);
    };
  }
  if (name == "embedding_bwd") {
    return [args = embedding_bwd_args(context), sequences, operands,
            run = context.pick(embedding_bwd_ref, embedding_bwd_cpu)]() mutable {
      args.num_tokens = read_integer(operands.cu_seqlens, sequences);
      args.accumulate = read_flag(operands.accumulate);
      run(args);
    };
  }
  if (name == "first_token") {
    return [args = first_token_fwd_args(context),
            run = context.pick(first_token_fwd_ref, first_token_fwd_cpu)] { run(args); };
  }
  if (name == "first_token_bwd") {
    return [args = first_token_bwd_args(context),
            run = context.pick(first_token_bwd_ref, first_token_bwd_cpu)] { run(args); };
  }
  return {};
}

}  // namespace plimsoll
