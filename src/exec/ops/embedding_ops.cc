#include "exec/ops/family_ops.h"

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

EmbeddingSumFwdArgs embedding_sum_args(const BindContext& context) {
  EmbeddingSumFwdArgs args{.x = context.output(EmbeddingSumOp::kX),
                           .T = context.output_size(EmbeddingSumOp::kX, 0),
                           .C = context.output_size(EmbeddingSumOp::kX, 1)};
  const int stride = context.schema().repeated_inputs(context.view());
  for (int ids = EmbeddingSumOp::kIds; ids < context.view().num_inputs(); ids += stride) {
    const auto table = static_cast<size_t>(args.num_tables++);
    PLIMSOLL_CHECK(table < args.tables.size());
    args.ids[table] = context.input(ids);
    args.tables[table] = context.input(ids + EmbeddingSumOp::kTable - EmbeddingSumOp::kIds);
  }
  if (context.attributes().integer_or(kTensorRanks, 1) > 1) {
    const int64_t rank = context.communicator(MeshAxis::kTensor).rank();
    args.num_rows = context.input_size(EmbeddingSumOp::kTable, 0);
    args.first_row = rank * args.num_rows;
    if (rank > 0) args.num_tables = 1;
  }
  return args;
}

EmbeddingBwdArgs embedding_bwd_args(const BindContext& context) {
  EmbeddingBwdArgs args{.d_x = context.input(EmbeddingBwdOp::kDX),
                        .sorted = context.input(EmbeddingBwdOp::kSorted),
                        .d_table = context.output(EmbeddingBwdOp::kDTable),
                        .T = context.input_size(EmbeddingBwdOp::kDX, 0),
                        .C = context.output_size(EmbeddingBwdOp::kDTable, 1),
                        .V = context.output_size(EmbeddingBwdOp::kDTable, 0),
                        .first_row = context.attributes().integer_or("first_row", 0),
                        .table_rows = context.attributes().integer_or("of_rows", 0),
                        .padding_id = context.attributes().integer_or("padding_id", -1),
                        .scratch = context.scratch()};
  if (const int64_t ranks = context.attributes().integer_or(kTensorRanks, 1); ranks > 1) {
    const int64_t rows = context.attributes().integer(kRankRows);
    args.first_row += context.communicator(MeshAxis::kTensor).rank() * rows;
    args.table_rows = ranks * rows;
  }
  return args;
}

SortIdsArgs sort_ids_args(const BindContext& context) {
  SortIdsArgs args{.T = context.input_size(SortIdsOp::kIds, 0),
                   .V = context.attributes().integer("rows"),
                   .scratch = context.scratch()};
  for (int i = SortIdsOp::kIds; i < context.view().num_inputs(); ++i) {
    const auto list = static_cast<size_t>(args.num_lists++);
    PLIMSOLL_CHECK(list < args.ids.size());
    args.ids[list] = context.input(i);
    args.sorted[list] = context.output(SortIdsOp::kSorted + i - SortIdsOp::kIds);
  }
  return args;
}

RopeArgs rope_args(const BindContext& context) {
  return {.x = context.input(RopeOp::kX),
          .table = context.input(RopeOp::kTable),
          .y = context.output(RopeOp::kY),
          .T = context.input_size(RopeOp::kX, 0),
          .N = context.input_size(RopeOp::kX, 1),
          .H = context.attributes().integer("heads"),
          .D = context.input_size(RopeOp::kTable, 1),
          .direction = context.attributes().integer_or("transposed", 0) != 0 ? RopeDirection::kTransposed
                                                                             : RopeDirection::kForward};
}
RopeTableArgs rope_table_args(const BindContext& context) {
  const int64_t dim = context.attributes().integer("dim");
  return {.positions = context.input(RopeTableOp::kPositions),
          .cu_seqlens = context.input(RopeTableOp::kCuSeqlens),
          .table = context.output(RopeTableOp::kTable),
          .T = context.input_size(RopeTableOp::kPositions, 0),
          .B = context.bucket().sequences,
          .D = dim,
          .frequencies = rope_frequencies(parse_rope_text(context.attributes().word("rope")), dim)};
}

namespace {

SequenceRow sequence_row(const BindContext& context) {
  return reads_last_token(context.attributes()) ? SequenceRow::kLast : SequenceRow::kFirst;
}

}  // namespace

FirstTokenFwdArgs first_token_args(const BindContext& context) {
  return {.x = context.input(FirstTokenOp::kX),
          .cu_seqlens = context.input(FirstTokenOp::kCuSeqlens),
          .out = context.output(FirstTokenOp::kY),
          .T = context.bucket().tokens,
          .C = context.output_size(FirstTokenOp::kY, 1),
          .B = context.output_size(FirstTokenOp::kY, 0),
          .row = sequence_row(context)};
}
FirstTokenBwdArgs first_token_bwd_args(const BindContext& context) {
  return {.d_out = context.input(FirstTokenBwdOp::kDY),
          .cu_seqlens = context.input(FirstTokenBwdOp::kCuSeqlens),
          .d_x = context.output(FirstTokenBwdOp::kDX),
          .T = context.bucket().tokens,
          .C = context.output_size(FirstTokenBwdOp::kDX, 1),
          .B = context.input_size(FirstTokenBwdOp::kDY, 0),
          .row = sequence_row(context)};
}

SequenceMeanFwdArgs sequence_mean_args(const BindContext& context) {
  return {.x = context.input(SequenceMeanOp::kX),
          .cu_seqlens = context.input(SequenceMeanOp::kCuSeqlens),
          .y = context.output(SequenceMeanOp::kY),
          .T = context.bucket().tokens,
          .C = context.output_size(SequenceMeanOp::kY, 1),
          .B = context.bucket().sequences};
}
SequenceMeanBwdArgs sequence_mean_bwd_args(const BindContext& context) {
  return {.d_y = context.input(SequenceMeanBwdOp::kDY),
          .cu_seqlens = context.input(SequenceMeanBwdOp::kCuSeqlens),
          .d_x = context.output(SequenceMeanBwdOp::kDX),
          .T = context.bucket().tokens,
          .C = context.output_size(SequenceMeanBwdOp::kDX, 1),
          .B = context.bucket().sequences};
}

}  // namespace plimsoll
