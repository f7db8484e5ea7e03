#include "exec/bound_op.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"

namespace plimsoll {

std::function<void()> bind_embedding_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  const int64_t sequences = context.bucket().sequences;
  if (name == "embedding_sum") {
    EmbeddingSumFwdArgs args{
        .x = context.output(0), .T = context.bucket().tokens, .C = context.output_size(0, 1)};
    for (int i = 1; i + 1 < context.view().num_inputs(); i += 2) {
      const auto table = static_cast<size_t>(args.num_tables++);
      PLIMSOLL_CHECK(table < args.tables.size());
      args.ids[table] = context.input(i);
      args.tables[table] = context.input(i + 1);
    }
    return [args, sequences, cu = context.input(0),
            run = context.pick(embedding_sum_fwd_ref, embedding_sum_fwd_cpu)]() mutable {
      args.num_tokens = read_integer(cu, sequences);
      run(args);
    };
  }
  if (name == "embedding_bwd") {
    EmbeddingBwdArgs args{.d_x = context.input(2),
                          .ids = context.input(1),
                          .d_table = context.output(0),
                          .T = context.bucket().tokens,
                          .C = context.output_size(0, 1),
                          .V = context.output_size(0, 0),
                          .padding_id = context.attributes().integer_or("padding_id", -1),
                          .scratch = context.scratch()};
    const ConstView flag = context.has_input(3) ? context.input(4) : ConstView{};
    return [args, sequences, flag, cu = context.input(0),
            run = context.pick(embedding_bwd_ref, embedding_bwd_cpu)]() mutable {
      args.num_tokens = read_integer(cu, sequences);
      args.accumulate = read_flag(flag);
      run(args);
    };
  }
  if (name == "first_token") {
    const FirstTokenFwdArgs args{.x = context.input(0),
                                 .cu_seqlens = context.input(1),
                                 .out = context.output(0),
                                 .T = context.bucket().tokens,
                                 .C = context.output_size(0, 1),
                                 .B = sequences};
    return [args, run = context.pick(first_token_fwd_ref, first_token_fwd_cpu)] { run(args); };
  }
  if (name == "first_token_bwd") {
    const FirstTokenBwdArgs args{.d_out = context.input(0),
                                 .cu_seqlens = context.input(1),
                                 .d_x = context.output(0),
                                 .T = context.bucket().tokens,
                                 .C = context.output_size(0, 1),
                                 .B = sequences};
    return [args, run = context.pick(first_token_bwd_ref, first_token_bwd_cpu)] { run(args); };
  }
  return {};
}

}  // namespace plimsoll
