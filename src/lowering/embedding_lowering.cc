// Lowers ops that read or write rows of embedding tables, that is, describes them as problems for their kernels.
#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Describes an op that processes `rows` embedding rows. Their width and element type are those of `value`.
LoweredOp describe_embedding_of(const Value& value, const Dim& rows, const Bucket& bucket) {
  return {.dtype = value.type.dtype,
          .family = EmbeddingProblem{.tokens = rows.at(bucket), .columns = value.type.shape[1].at(bucket)}};
}
// Describes a sum of embeddings from several tables. All tables have the same width, so the first one determines the problem.
LoweredOp describe_embedding_sum(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_embedding_of(op.input(EmbeddingSumOp::kTable), op.out_shape(EmbeddingSumOp::kX)[0], bucket);
}
LoweredOp describe_embedding_bwd(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_embedding_of(op.input(EmbeddingBwdOp::kDX), op.in_shape(EmbeddingBwdOp::kDX)[0], bucket);
}

// Describes the sorting of ids. The ids are integers, so the catalog lists the kernels under one fixed floating-point type. The inputs of
// the op are cu_seqlens and then the lists of ids.
LoweredOp describe_sort_ids(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.family = SortIdsProblem{.tokens = op.in_shape(SortIdsOp::kIds)[0].at(bucket),
                                   .rows = op.attributes().integer("rows"),
                                   .num_lists = op.num_inputs() - SortIdsOp::kIds}};
}

// Describes the op that computes the rotary embedding table. Its element type is that of the output, because no input is
// floating-point.
LoweredOp describe_rope_table(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = op.output(RopeTableOp::kTable).type.dtype,
          .family = RowsProblem{.rows = op.in_shape(RopeTableOp::kPositions)[0].at(bucket),
                                .columns = op.attributes().integer("dim")}};
}

}  // namespace

std::vector<Lowering> embedding_lowerings() {
  return {{&embedding_sum_op(), "embedding_sum_fwd", describe_embedding_sum},
          {&embedding_bwd_op(), "embedding_bwd", describe_embedding_bwd},
          {&sort_ids_op(), "sort_ids", describe_sort_ids},
          {&rope_op(), "rope", describe_rows<RopeOp::kX>},
          {&rope_table_op(), "rope_table", describe_rope_table},
          {&first_token_op(), "first_token_fwd", describe_rows<FirstTokenOp::kX>},
          {&first_token_bwd_op(), "first_token_bwd", describe_rows<FirstTokenBwdOp::kDY>},
          {&sequence_mean_op(), "sequence_mean_fwd", describe_rows<SequenceMeanOp::kX>},
          {&sequence_mean_bwd_op(), "sequence_mean_bwd", describe_rows<SequenceMeanBwdOp::kDY>}};
}

}  // namespace plimsoll
