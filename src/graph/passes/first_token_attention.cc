#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/linear.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Every row of its sequence, without dropout, and the sequences are those of the first tokens.
bool sees_all(const Op& attention, ValueId cu_seqlens) {
  return attention.attributes.integer("causal") == 0 && attention.attributes.integer("lse") == 0 &&
         attention.attributes.number("p") == 0.0 && attention.inputs[1] == cu_seqlens;
}

// Runs on a forward graph that is not differentiated, behind unread_rows, which leaves first_token as the one
// reader of the last attention. The fused op stands where first_token stood.
void fuse_first_token_attention(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  const Readers readers = find_readers(graph);
  std::vector<bool> dead(graph.ops().size(), false);
  for (Op& op : graph.ops()) {
    if (op.def != &first_token_op()) continue;
    const auto attention = find_with_one_reader(graph, readers, op.inputs[0], attention_op());
    if (!attention || !sees_all(graph.ops()[*attention], op.inputs[1])) continue;
    const Op& all = graph.ops()[*attention];
    const auto product = find_linear_with_one_reader(graph, readers, all.inputs[0], LinearBias::kWith);
    if (!product) continue;
    const Op& qkv = graph.ops()[*product];
    Op fused{
        .def = &first_token_attention_op(),
        .inputs = {qkv.inputs[0], qkv.inputs[1], qkv.inputs[2], op.inputs[1]},
        .outputs = op.outputs,
        .attributes = {{"heads", all.attributes.integer("heads")}, {"scale", all.attributes.number("scale")}},
        .segment = op.segment,
        .module = all.module};
    if (!has_kernel({graph, fused})) continue;
    op = std::move(fused);
    dead[*attention] = dead[*product] = true;
  }
  remove_ops(graph, dead);
}

}  // namespace

Pass first_token_attention_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "first_token_attention",
          .numerics = Numerics::kChanging,
          .help =
              "where no gradient is taken, the last attention is computed for first tokens alone, without "
              "the keys and values of all others",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) {
            fuse_first_token_attention(graph, has_kernel);
          }};
}

}  // namespace plimsoll
