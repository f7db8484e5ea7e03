#include "exec/cuda/bind_cuda.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {

std::function<void()> bind_embedding_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  const ConstView cu_seqlens = run_time_operands(context).cu_seqlens;
  const int32_t* num_tokens = cu_seqlens ? cu_seqlens.as<int32_t>() + context.bucket().sequences : nullptr;
  if (name == "embedding_sum") {
    return given(stream, embedding_sum_fwd_cuda, embedding_sum_args(context), num_tokens);
  }
  if (name == "sort_ids") return given(stream, sort_ids_cuda, sort_ids_args(context), num_tokens);
  if (name == "embedding_bwd") {
    return given(stream, embedding_bwd_cuda, embedding_bwd_args(context), accumulate_of(context));
  }
  if (name == "first_token") return given(stream, first_token_fwd_cuda, first_token_fwd_args(context));
  if (name == "first_token_bwd") return given(stream, first_token_bwd_cuda, first_token_bwd_args(context));
  return {};
}

}  // namespace plimsoll
