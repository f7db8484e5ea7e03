#include "exec/ops/family_ops.h"

#include "exec/ops/call.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

AttentionOptions attention_options(const BindContext& context) {
  AttentionOptions options{.scale = context.attributes().number("scale"),
                           .mask = context.attributes().integer("causal") != 0
                                       ? AttentionMask::kCausal
                                       : AttentionMask::kBidirectional,
                           .dropout = context.attributes().number("p"),
                           .random = {.site = static_cast<uint32_t>(context.attributes().integer("site"))}};
  const int64_t tensor_ranks = context.attributes().integer_or(kTensorRanks, 1);
  if (tensor_ranks > 1 && options.dropout > 0) {
    const int64_t heads = context.attributes().integer("heads");
    options.all_heads = tensor_ranks * heads;
    options.first_head = context.communicator(MeshAxis::kTensor).rank() * heads;
  }
  return options;
}

// A row of qkv consists of three parts: the heads of q, the heads of k and the heads of v.
enum Part { kQ, kK, kV };

// Returns a view of the heads of q, of k or of v in all rows of qkv. Its rows are not contiguous: the row stride is that of qkv.
template <typename AnyRows, typename AnyView>
AnyRows part_of(AnyView qkv, const AttentionDims& dims, Part part) {
  const int64_t kv_heads = dims.num_kv_heads();
  const int64_t heads_before = part == kQ ? 0 : part == kK ? dims.heads : dims.heads + kv_heads;
  auto* start = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(qkv.data)));
  qkv.data = start + heads_before * dims.head_dim * dtype_bytes(qkv.dtype);
  return {.view = qkv, .row_stride = (dims.heads + 2 * kv_heads) * dims.head_dim};
}

}  // namespace

AttentionFwdArgs attention_args(const BindContext& context) {
  const AttentionDims dims = attention_dims(context.view(), context.bucket());
  const ConstView qkv = context.input(AttentionOp::kQkv);
  return {.dims = dims,
          .options = attention_options(context),
          .q = part_of<ConstRows>(qkv, dims, kQ),
          .k = part_of<ConstRows>(qkv, dims, kK),
          .v = part_of<ConstRows>(qkv, dims, kV),
          .cu_seqlens = context.input(AttentionOp::kCuSeqlens),
          .o = context.output(AttentionOp::kO),
          .lse = context.output(AttentionOp::kLse),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

AttentionBwdArgs attention_bwd_args(const BindContext& context) {
  const AttentionDims dims = attention_dims(context.view(), context.bucket());
  const ConstView qkv = context.input(AttentionBwdOp::kQkv);
  const View d_qkv = context.output(AttentionBwdOp::kDQkv);
  return {.dims = dims,
          .options = attention_options(context),
          .q = part_of<ConstRows>(qkv, dims, kQ),
          .k = part_of<ConstRows>(qkv, dims, kK),
          .v = part_of<ConstRows>(qkv, dims, kV),
          .cu_seqlens = context.input(AttentionBwdOp::kCuSeqlens),
          .o = context.input(AttentionBwdOp::kO),
          .lse = context.input(AttentionBwdOp::kLse),
          .d_o = context.input(AttentionBwdOp::kDO),
          .d_q = part_of<Rows>(d_qkv, dims, kQ),
          .d_k = part_of<Rows>(d_qkv, dims, kK),
          .d_v = part_of<Rows>(d_qkv, dims, kV),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

FirstTokenAttentionArgs first_token_attention_args(const BindContext& context) {
  const FirstTokenAttentionProblem problem = first_token_attention_problem(context.view(), context.bucket());
  return {.dims = problem.dims,
          .columns = problem.columns,
          .scale = context.attributes().number("scale"),
          .x_TC = context.input(FirstTokenAttentionOp::kX),
          .w_3HDC = context.input(FirstTokenAttentionOp::kW),
          .bias_3HD = context.input(FirstTokenAttentionOp::kBias),
          .cu_seqlens = context.input(FirstTokenAttentionOp::kCuSeqlens),
          .o_BHD = context.output(FirstTokenAttentionOp::kO),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

AppendKvArgs append_kv_args(const BindContext& context) {
  return {.dims = paged_attention_dims(context.view(), context.bucket(),
                                       context.view().in_shape(AppendKvOp::kCache)),
          .qkv = context.input(AppendKvOp::kQkv),
          .cu_seqlens = context.input(AppendKvOp::kCuSeqlens),
          .page_table = context.input(AppendKvOp::kPageTable),
          .lengths = context.input(AppendKvOp::kLengths),
          .copy_from = context.input(AppendKvOp::kCopyFrom),
          .cache = context.output(AppendKvOp::kNewCache)};
}

PagedAttentionArgs paged_attention_args(const BindContext& context) {
  return {.dims = paged_attention_dims(context.view(), context.bucket(),
                                       context.view().in_shape(PagedAttentionOp::kCache)),
          .scale = context.attributes().number("scale"),
          .qkv = context.input(PagedAttentionOp::kQkv),
          .cu_seqlens = context.input(PagedAttentionOp::kCuSeqlens),
          .page_table = context.input(PagedAttentionOp::kPageTable),
          .lengths = context.input(PagedAttentionOp::kLengths),
          .cache = context.input(PagedAttentionOp::kCache),
          .o = context.output(PagedAttentionOp::kO),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

std::function<void()> bind_attention_cpu(const BindContext& context) {
  return bind_call<attention_args, RandomState>(context);
}
std::function<void()> bind_attention_bwd_cpu(const BindContext& context) {
  return bind_call<attention_bwd_args, RandomState>(context);
}

}  // namespace plimsoll
