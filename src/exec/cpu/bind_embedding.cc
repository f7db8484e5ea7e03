#include "exec/cpu/bind_cpu.h"
#include "exec/kernel_args.h"

namespace plimsoll {

std::function<void()> bind_embedding_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const int64_t sequences = context.bucket().sequences;
  const RunTimeOperands operands = run_time_operands(context);
  if (name == "embedding_sum") {
    return given(context.pick(embedding_sum_fwd_ref, embedding_sum_fwd_cpu), embedding_sum_args(context),
                 [operands, sequences](EmbeddingSumFwdArgs& now) {
                   now.num_tokens = read_integer(operands.cu_seqlens, sequences);
                 });
  }
  if (name == "sort_ids") {
    return given(context.pick(sort_ids_ref, sort_ids_cpu), sort_ids_args(context),
                 [operands, sequences](SortIdsArgs& now) {
                   now.num_tokens = read_integer(operands.cu_seqlens, sequences);
                 });
  }
  if (name == "embedding_bwd") {
    return given(context.pick(embedding_bwd_ref, embedding_bwd_cpu), embedding_bwd_args(context),
                 [operands](EmbeddingBwdArgs& now) { now.accumulate = read_flag(operands.accumulate); });
  }
  if (name == "first_token") {
    return given(context.pick(first_token_fwd_ref, first_token_fwd_cpu), first_token_fwd_args(context));
  }
  if (name == "first_token_bwd") {
    return given(context.pick(first_token_bwd_ref, first_token_bwd_cpu), first_token_bwd_args(context));
  }
  return {};
}

}  // namespace plimsoll
