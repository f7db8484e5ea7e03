#include "lowering/lowering.h"

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Returns the sizes of an attention op. The size of a head is computed from one input or output of the op, such as qkv, which has `width`
// columns that contain `num_heads` heads next to each other.
AttentionDims dims_of(const OpView& op, const Bucket& bucket, int64_t width, int64_t num_heads) {
  const int64_t heads = op.attributes().integer("heads");
  const int64_t kv_heads = op.attributes().integer_or("kv_heads", heads);
  return {.tokens = bucket.tokens,
          .sequences = bucket.sequences,
          .longest = bucket.longest,
          .heads = heads,
          .head_dim = width / num_heads,
          .kv_heads = kv_heads,
          .window = op.attributes().integer_or("window", 0)};
}

LoweredOp describe_attention(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = op.input(AttentionOp::kQkv).type.dtype, .family = attention_dims(op, bucket)};
}
LoweredOp describe_first_token_attention(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = op.input(FirstTokenAttentionOp::kX).type.dtype,
          .family = first_token_attention_problem(op, bucket)};
}

LoweredOp describe_paged_attention(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = op.input(PagedAttentionOp::kQkv).type.dtype,
          .family = paged_attention_dims(op, bucket, op.in_shape(PagedAttentionOp::kCache))};
}
LoweredOp describe_append_kv(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = op.input(AppendKvOp::kQkv).type.dtype,
          .family = paged_attention_dims(op, bucket, op.in_shape(AppendKvOp::kCache))};
}

}  // namespace

PagedAttentionDims paged_attention_dims(const OpView& op, const Bucket& bucket, const Shape& cache) {
  const int64_t heads = op.attributes().integer("heads");
  const int64_t kv_heads = op.attributes().integer_or("kv_heads", heads);
  return {.tokens = bucket.tokens,
          .sequences = bucket.sequences,
          .longest = bucket.longest,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = cache[3].offset / kv_heads,
          .num_pages = cache[0].offset,
          .page_size = cache[2].offset,
          .max_pages = op.in_shape(PagedAttentionOp::kPageTable)[1].offset,
          .window = op.attributes().integer_or("window", 0)};
}

AttentionDims attention_dims(const OpView& op, const Bucket& bucket) {
  const int64_t heads = op.attributes().integer("heads");
  return dims_of(op, bucket, op.in_shape(AttentionOp::kQkv)[1].at(bucket),
                 heads + 2 * op.attributes().integer_or("kv_heads", heads));
}

FirstTokenAttentionProblem first_token_attention_problem(const OpView& op, const Bucket& bucket) {
  return {.dims = dims_of(op, bucket, op.out_shape(FirstTokenAttentionOp::kO)[1].at(bucket),
                          op.attributes().integer("heads")),
          .columns = op.in_shape(FirstTokenAttentionOp::kX)[1].at(bucket),
          .w = op.input(FirstTokenAttentionOp::kW).type.dtype};
}

std::vector<Lowering> attention_lowerings() {
  return {{&append_kv_op(), "append_kv", describe_append_kv},
          {&paged_attention_op(), "paged_attention", describe_paged_attention},
          {&attention_op(), "attention_fwd", describe_attention},
          {&attention_bwd_op(), "attention_bwd", describe_attention},
          {&first_token_attention_op(), "first_token_attention", describe_first_token_attention}};
}

}  // namespace plimsoll
