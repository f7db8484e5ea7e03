#include "exec/bound_op.h"
#include "kernels/attention/attention.h"

namespace plimsoll {
namespace {

AttentionDims dims_of(const BindContext& context) {
  const int64_t heads = context.attributes().integer("heads");
  return {.tokens = context.bucket().tokens,
          .sequences = context.bucket().sequences,
          .longest = context.bucket().longest,
          .heads = heads,
          .head_dim = context.input_size(0, 1) / 3 / heads};
}

AttentionOptions options_of(const BindContext& context) {
  return {.scale = context.attributes().number("scale"),
          .mask = context.attributes().integer("causal") != 0 ? AttentionMask::kCausal
                                                              : AttentionMask::kBidirectional,
          .dropout = context.attributes().number("p")};
}

// The q, k or v of all heads: a slice of every row of qkv.
template <typename AnyRows, typename AnyView>
AnyRows slice(AnyView qkv, int64_t width, int which) {
  auto* start = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(qkv.data)));
  qkv.data = start + which * width * dtype_bytes(qkv.dtype);
  return {.view = qkv, .row_stride = 3 * width};
}

}  // namespace

std::function<void()> bind_attention_cpu(const BindContext& context) {
  const std::string_view name = context.op().def->name();
  if (name != "attention" && name != "attention_bwd") return {};
  const AttentionDims dims = dims_of(context);
  const int64_t width = dims.heads * dims.head_dim;
  const ConstView rng = context.input(2);
  const int64_t site = context.attributes().integer("site");
  if (name == "attention") {
    AttentionFwdArgs args{.dims = dims,
                          .options = options_of(context),
                          .q = slice<ConstRows>(context.input(0), width, 0),
                          .k = slice<ConstRows>(context.input(0), width, 1),
                          .v = slice<ConstRows>(context.input(0), width, 2),
                          .cu_seqlens = context.input(1),
                          .o = context.output(0),
                          .lse = context.output(1),
                          .scratch = context.scratch(),
                          .scratch_bytes = context.scratch_bytes()};
    return [args, rng, site, run = context.pick(attention_fwd_ref, attention_fwd_cpu)]() mutable {
      args.options.random = read_site(rng, site);
      run(args);
    };
  }
  AttentionBwdArgs args{.dims = dims,
                        .options = options_of(context),
                        .q = slice<ConstRows>(context.input(0), width, 0),
                        .k = slice<ConstRows>(context.input(0), width, 1),
                        .v = slice<ConstRows>(context.input(0), width, 2),
                        .cu_seqlens = context.input(1),
                        .o = context.input(3),
                        .lse = context.input(4),
                        .d_o = context.input(5),
                        .d_q = slice<Rows>(context.output(0), width, 0),
                        .d_k = slice<Rows>(context.output(0), width, 1),
                        .d_v = slice<Rows>(context.output(0), width, 2),
                        .scratch = context.scratch(),
                        .scratch_bytes = context.scratch_bytes()};
  return [args, rng, site, run = context.pick(attention_bwd_ref, attention_bwd_cpu)]() mutable {
    args.options.random = read_site(rng, site);
    run(args);
  };
}

}  // namespace plimsoll
