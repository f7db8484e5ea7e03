#include "exec/kernel_args.h"

#include <algorithm>

#include "graph/ops/activation.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

AttentionDims attention_dims(const BindContext& context) {
  const int64_t heads = context.attributes().integer("heads");
  return {.tokens = context.bucket().tokens,
          .sequences = context.bucket().sequences,
          .longest = context.bucket().longest,
          .heads = heads,
          .head_dim = context.input_size(0, 1) / 3 / heads};
}

AttentionOptions attention_options(const BindContext& context) {
  return {.scale = context.attributes().number("scale"),
          .mask = context.attributes().integer("causal") != 0 ? AttentionMask::kCausal
                                                              : AttentionMask::kBidirectional,
          .dropout = context.attributes().number("p"),
          .random = {.site = static_cast<uint32_t>(context.attributes().integer("site"))}};
}

// The q, k or v of all heads: a slice of every row of qkv.
template <typename AnyRows, typename AnyView>
AnyRows slice(AnyView qkv, const AttentionDims& dims, int which) {
  const int64_t width = dims.heads * dims.head_dim;
  auto* start = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(qkv.data)));
  qkv.data = start + which * width * dtype_bytes(qkv.dtype);
  return {.view = qkv, .row_stride = 3 * width};
}

// Where the inputs of ops stand that accumulate: the destination before its flag.
int flag_input(std::string_view op) {
  if (op == "matmul" || op == "bias_gelu_bwd") return 4;
  if (op == "embedding_bwd") return 3;
  if (op == "bias_grad") return 2;
  if (op == "scale_shift_bwd") return 5;
  if (op == "bias_dropout_residual_norm_bwd") return 9;
  if (op == "linear_cross_entropy_grad") return 8;
  return op == "accumulate" ? 1 : -1;
}

}  // namespace

std::span<std::byte> scratch_bytes_of(const BindContext& context) {
  return {static_cast<std::byte*>(context.scratch().data), static_cast<size_t>(context.scratch_bytes())};
}

RunTimeOperands run_time_operands(const BindContext& context) {
  const std::string_view op = context.op().def->name();
  const auto optional = [&](int i) {
    return i >= 0 && i < context.view().num_inputs() && context.has_input(i) ? context.input(i) : ConstView{};
  };
  RunTimeOperands operands;
  operands.accumulate = optional(flag_input(op));
  operands.site = context.attributes().integer_or("site", 0);
  if (op.starts_with("attention")) operands.rng = optional(2);
  if (op.starts_with("bias_dropout_residual_norm")) operands.rng = optional(5);
  if (op == "dropout") operands.rng = optional(1);
  if (op == "embedding_sum" || op == "sort_ids") operands.cu_seqlens = optional(0);
  if (op.starts_with("bce_with_logits") || op.starts_with("mse")) operands.real_rows = optional(3);
  return operands;
}

AttentionFwdArgs attention_fwd_args(const BindContext& context) {
  const AttentionDims dims = attention_dims(context);
  return {.dims = dims,
          .options = attention_options(context),
          .q = slice<ConstRows>(context.input(0), dims, 0),
          .k = slice<ConstRows>(context.input(0), dims, 1),
          .v = slice<ConstRows>(context.input(0), dims, 2),
          .cu_seqlens = context.input(1),
          .o = context.output(0),
          .lse = context.output(1),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

AttentionBwdArgs attention_bwd_args(const BindContext& context) {
  const AttentionDims dims = attention_dims(context);
  return {.dims = dims,
          .options = attention_options(context),
          .q = slice<ConstRows>(context.input(0), dims, 0),
          .k = slice<ConstRows>(context.input(0), dims, 1),
          .v = slice<ConstRows>(context.input(0), dims, 2),
          .cu_seqlens = context.input(1),
          .o = context.input(3),
          .lse = context.input(4),
          .d_o = context.input(5),
          .d_q = slice<Rows>(context.output(0), dims, 0),
          .d_k = slice<Rows>(context.output(0), dims, 1),
          .d_v = slice<Rows>(context.output(0), dims, 2),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

FirstTokenAttentionArgs first_token_attention_args(const BindContext& context) {
  const int64_t heads = context.attributes().integer("heads");
  return {.dims = {.tokens = context.bucket().tokens,
                   .sequences = context.bucket().sequences,
                   .longest = context.bucket().longest,
                   .heads = heads,
                   .head_dim = context.output_size(0, 1) / heads},
          .columns = context.input_size(0, 1),
          .scale = context.attributes().number("scale"),
          .x_TC = context.input(0),
          .w_3HDC = context.input(1),
          .bias_3HD = context.input(2),
          .cu_seqlens = context.input(3),
          .o_BHD = context.output(0),
          .scratch = context.scratch(),
          .scratch_bytes = context.scratch_bytes()};
}

ActivationFwdArgs activation_fwd_args(const BindContext& context) {
  return {.x = context.input(0), .y = context.output(0), .n = context.output_elements(0)};
}
ActivationBwdArgs activation_bwd_args(const BindContext& context) {
  return {.y = context.input(0),
          .d_y = context.input(1),
          .d_x = context.output(0),
          .n = context.output_elements(0)};
}
GeluFwdArgs gelu_fwd_args(const BindContext& context) {
  return {.x = context.input(0),
          .y = context.output(0),
          .n = context.output_elements(0),
          .activation = activation_of(context.attributes())};
}
GeluBwdArgs gelu_bwd_args(const BindContext& context) {
  return {.x = context.input(0),
          .d_y = context.input(1),
          .d_x = context.output(0),
          .n = context.output_elements(0),
          .activation = activation_of(context.attributes())};
}
BiasGeluFwdArgs bias_gelu_fwd_args(const BindContext& context) {
  return {.h = context.input(0),
          .b = context.input(1),
          .y = context.output(0),
          .T = context.output_size(0, 0),
          .C = context.output_size(0, 1),
          .activation = activation_of(context.attributes())};
}
BiasGeluBwdArgs bias_gelu_bwd_args(const BindContext& context) {
  return {.h = context.input(0),
          .b = context.input(1),
          .d_y = context.input(2),
          .d_h = context.output(0),
          .d_b = context.output(1),
          .scratch = context.scratch(),
          .T = context.input_size(0, 0),
          .C = context.input_size(0, 1),
          .activation = activation_of(context.attributes())};
}
AddFwdArgs add_args(const BindContext& context) {
  return {
      .a = context.input(0), .b = context.input(1), .c = context.output(0), .n = context.output_elements(0)};
}
AddFwdArgs accumulate_args(const BindContext& context) {
  return {
      .a = context.input(0), .b = context.input(2), .c = context.output(0), .n = context.output_elements(0)};
}
BiasAddFwdArgs bias_add_args(const BindContext& context) {
  return {.x = context.input(0),
          .b = context.input(1),
          .y = context.output(0),
          .T = context.output_size(0, 0),
          .C = context.output_size(0, 1)};
}
BiasGradArgs bias_grad_args(const BindContext& context) {
  return {.d_y = context.input(0),
          .d_b = context.output(0),
          .scratch = context.scratch(),
          .T = context.input_size(0, 0),
          .C = context.input_size(0, 1)};
}
ScaleShiftFwdArgs scale_shift_fwd_args(const BindContext& context) {
  return {.x_hat = context.input(0),
          .gain = context.input(1),
          .bias = context.input(2),
          .y = context.output(0),
          .T = context.output_size(0, 0),
          .C = context.output_size(0, 1)};
}
ScaleShiftBwdArgs scale_shift_bwd_args(const BindContext& context) {
  return {.d_y = context.input(2),
          .x_hat = context.input(0),
          .gain = context.input(1),
          .d_x_hat = context.output(0),
          .d_gain = context.output(1),
          .d_bias = context.output(2),
          .scratch = context.scratch(),
          .T = context.input_size(0, 0),
          .C = context.input_size(0, 1)};
}
ColumnsFwdArgs columns_args(const BindContext& context) {
  return {.x = context.input(0),
          .y = context.output(0),
          .T = context.input_size(0, 0),
          .N = context.input_size(0, 1),
          .K = context.output_size(0, 1),
          .first = context.attributes().integer("first"),
          .scale = context.attributes().number("scale")};
}
AddColumnsFwdArgs add_columns_args(const BindContext& context) {
  return {.x = context.input(0),
          .y = context.input(1),
          .z = context.output(0),
          .T = context.input_size(0, 0),
          .N = context.input_size(0, 1),
          .K = context.input_size(1, 1),
          .first = context.attributes().integer("first")};
}
CastFwdArgs cast_args(const BindContext& context) {
  return {.x = context.input(0), .y = context.output(0), .n = context.output_elements(0)};
}
std::vector<CopyArgs> copy_args(const BindContext& context) {
  std::vector<CopyArgs> copies;
  const std::optional<Slice> slice = slice_of(context.attributes());
  for (int i = 0; i < context.view().num_outputs(); ++i) {
    const View to = context.output(i);
    const int64_t width = dtype_bytes(to.dtype);
    CopyArgs copy{.from = static_cast<const std::byte*>(context.input(i).data),
                  .to = static_cast<std::byte*>(to.data),
                  .bytes = std::min(context.input_elements(i), context.output_elements(i)) * width};
    if (slice) {
      // The longer of the two is whole, and as many times the parameter's size in the other.
      const int64_t whole = std::max(context.input_elements(i), context.output_elements(i));
      const int64_t numbers = whole / slice->of;
      copy.from += slice->first_in(context.input_elements(i), numbers) * width;
      copy.to += slice->first_in(context.output_elements(i), numbers) * width;
    }
    copies.push_back(copy);
  }
  return copies;
}

FillArgs fill_args(const BindContext& context) {
  return {.x = context.output(0),
          .count = context.output_elements(0),
          .value = context.attributes().number("value")};
}
DropoutFwdArgs dropout_args(const BindContext& context) {
  return {.x = context.input(0),
          .y = context.output(0),
          .n = context.output_elements(0),
          .p = context.attributes().number("p"),
          .where = {.site = static_cast<uint32_t>(context.attributes().integer("site"))}};
}

EmbeddingSumFwdArgs embedding_sum_args(const BindContext& context) {
  EmbeddingSumFwdArgs args{
      .x = context.output(0), .T = context.bucket().tokens, .C = context.output_size(0, 1)};
  for (int i = 1; i + 1 < context.view().num_inputs(); i += 2) {
    const auto table = static_cast<size_t>(args.num_tables++);
    PLIMSOLL_CHECK(table < args.tables.size());
    args.ids[table] = context.input(i);
    args.tables[table] = context.input(i + 1);
  }
  return args;
}
SortIdsArgs sort_ids_args(const BindContext& context) {
  SortIdsArgs args{
      .T = context.bucket().tokens, .V = context.attributes().integer("rows"), .scratch = context.scratch()};
  for (int i = 1; i < context.view().num_inputs(); ++i) {
    const auto list = static_cast<size_t>(args.num_lists++);
    PLIMSOLL_CHECK(list < args.ids.size());
    args.ids[list] = context.input(i);
    args.sorted[list] = context.output(i - 1);
  }
  return args;
}
EmbeddingBwdArgs embedding_bwd_args(const BindContext& context) {
  return {.d_x = context.input(1),
          .sorted = context.input(0),
          .d_table = context.output(0),
          .T = context.bucket().tokens,
          .C = context.output_size(0, 1),
          .V = context.output_size(0, 0),
          .first_row = context.attributes().integer_or("first_row", 0),
          .table_rows = context.attributes().integer_or("of_rows", 0),
          .padding_id = context.attributes().integer_or("padding_id", -1),
          .scratch = context.scratch()};
}
FirstTokenFwdArgs first_token_fwd_args(const BindContext& context) {
  return {.x = context.input(0),
          .cu_seqlens = context.input(1),
          .out = context.output(0),
          .T = context.bucket().tokens,
          .C = context.output_size(0, 1),
          .B = context.bucket().sequences};
}
FirstTokenBwdArgs first_token_bwd_args(const BindContext& context) {
  return {.d_out = context.input(0),
          .cu_seqlens = context.input(1),
          .d_x = context.output(0),
          .T = context.bucket().tokens,
          .C = context.output_size(0, 1),
          .B = context.bucket().sequences};
}

NormalizeFwdArgs normalize_fwd_args(const BindContext& context) {
  return {.x = context.input(0),
          .x_hat = context.output(0),
          .rstd = context.output(1),
          .T = context.input_size(0, 0),
          .C = context.input_size(0, 1),
          .eps = context.attributes().number("eps")};
}
NormalizeBwdArgs normalize_bwd_args(const BindContext& context) {
  return {.d_x_hat = context.input(2),
          .x_hat = context.input(0),
          .rstd = context.input(1),
          .d_x = context.output(0),
          .T = context.input_size(0, 0),
          .C = context.input_size(0, 1)};
}
BiasDropoutResidualNormFwdArgs fused_norm_fwd_args(const BindContext& context) {
  return {.x = context.input(0),
          .bias = context.input(1),
          .residual = context.input(2),
          .gain = context.input(3),
          .beta = context.input(4),
          .y = context.output(0),
          .x_hat = context.output(1),
          .rstd = context.output(2),
          .T = context.input_size(0, 0),
          .C = context.input_size(0, 1),
          .eps = context.attributes().number("eps"),
          .p = context.attributes().number("p"),
          .where = {.site = static_cast<uint32_t>(context.attributes().integer_or("site", 0))}};
}
BiasDropoutResidualNormBwdArgs fused_norm_bwd_args(const BindContext& context) {
  const bool p = context.attributes().number("p") > 0.0;
  const bool residual = context.attributes().integer("residual") != 0;
  const bool bias = context.attributes().integer("bias") != 0;
  BiasDropoutResidualNormBwdArgs args;
  args.d_y = context.input(0);
  args.d_y2 = context.input(1);
  args.x_hat = context.input(2);
  args.rstd = context.input(3);
  args.gain = context.input(4);
  args.scratch = context.scratch();
  args.T = context.input_size(0, 0);
  args.C = context.input_size(0, 1);
  args.p = context.attributes().number("p");
  args.where.site = static_cast<uint32_t>(context.attributes().integer_or("site", 0));
  int next = 0;
  if (residual || !p) args.d_residual = context.output(next++);
  if (p) args.d_x = context.output(next++);
  args.d_gain = context.output(next++);
  args.d_beta = context.output(next++);
  if (bias) args.d_bias = context.output(next++);
  return args;
}

MatmulProblem matmul_problem(const BindContext& context) {
  return planned_product(context.view(), context.bucket(), context.request(), context.kernel()).problem;
}

MatmulArgs matmul_args(const BindContext& context) {
  const bool adds = context.op().def->name() == "linear_add";
  return {.a = context.input(0),
          .b = context.input(1),
          .bias = adds ? ConstView{} : context.input(2),
          .c = context.output(0),
          .addend = adds ? context.input(2) : ConstView{},
          .scratch = scratch_bytes_of(context)};
}
LinearNormArgs linear_norm_args(const BindContext& context) {
  return {.x = context.input(0),
          .w = context.input(1),
          .bias = context.input(2),
          .residual = context.input(3),
          .gain = context.input(4),
          .beta = context.input(5),
          .y = context.output(0),
          .eps = context.attributes().number("eps"),
          .scratch = scratch_bytes_of(context)};
}
LinearProblem linear_problem(const BindContext& context) {
  return {.rows = context.output_size(0, 0),
          .columns = context.output_size(0, 1),
          .terms = context.input_size(0, 1),
          .dtype = context.input(0).dtype,
          .sm = context.request().device.gpu.sm,
          .workspace_bytes = context.request().products.workspace_bytes};
}

}  // namespace plimsoll
