#include <utility>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Returns true if every row attends to all rows of its sequence, without dropout and with as many heads of keys and
// values as of queries, and if the attention divides rows into the same sequences (cu_seqlens) as first_token does.
bool sees_all(const Op& attention, ValueId cu_seqlens) {
  const int64_t heads = attention.attributes.integer("heads");
  return attention.attributes.integer("causal") == 0 && attention.attributes.integer("lse") == 0 &&
         attention.attributes.integer_or("kv_heads", heads) == heads &&
         attention.attributes.integer_or("window", 0) == 0 && attention.attributes.number("p") == 0.0 &&
         attention.inputs[AttentionOp::kCuSeqlens] == cu_seqlens;
}

// Runs on a forward graph that is not differentiated, after unread_rows, which leaves first_token as the only reader of
// the last attention. The fused op is inserted at the position of first_token.
void fuse_first_token_attention(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  Rewriter rewriter(graph);
  for (uint32_t i = 0; i < rewriter.num_ops(); ++i) {
    if (!rewriter.is(i, first_token_op())) continue;
    const Op& first_token = rewriter.op(i);
    const ValueId cu_seqlens = first_token.inputs[FirstTokenOp::kCuSeqlens];
    const auto attention = rewriter.find_producer(i, first_token.inputs[FirstTokenOp::kX], attention_op());
    if (!attention || !sees_all(rewriter.op(*attention), cu_seqlens)) continue;
    const Op& all = rewriter.op(*attention);
    const auto product = find_linear(rewriter, *attention, all.inputs[AttentionOp::kQkv], ProductBias::kWith);
    if (!product) continue;
    const Op& qkv = rewriter.op(*product);
    Op fused = op_instead_of(
        first_token, first_token_attention_op(),
        {qkv.inputs[MatmulOp::kA], qkv.inputs[MatmulOp::kB], qkv.inputs[MatmulOp::kBias], cu_seqlens},
        {{"heads", all.attributes.integer("heads")}, {"scale", all.attributes.number("scale")}});
    fused.module = all.module;
    if (!has_kernel({graph, fused})) continue;
    rewriter.replace(i, std::move(fused));
    rewriter.remove(*attention);
    rewriter.remove(*product);
  }
  rewriter.apply();
}

}  // namespace

Pass first_token_attention_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "first_token_attention",
          .numerics = Numerics::kChanging,
          .help =
              "in programs without gradients, computes the last attention only for the first token of each "
              "sequence, without keys and values of the other tokens",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) {
            fuse_first_token_attention(graph, has_kernel);
          }};
}

}  // namespace plimsoll
