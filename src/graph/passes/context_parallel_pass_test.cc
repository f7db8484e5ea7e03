#include <gtest/gtest.h>

#include <string>

#include "graph/autodiff/autodiff.h"
#include "graph/ops/ops.h"
#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

// A layer with grouped queries: four heads of two columns, which share two heads of keys and values. The host reads the logits of tokens.
constexpr const char* kTokenLayer = R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T]
  input %rng: i64[2]
  input %labels: i32[T]
  input %count: f32[1]
  weight %words: f32[24,8]
  weight %qkv: f32[16,8]
  weight %out: f32[8,8]
  weight %classes: f32[3,8]
  forward @embeddings
  %x: f32[T,8] = embedding_sum(%cu, %ids, %words) {padding_id=-1}
  forward @h.0
  %q: f32[T,16] = matmul(%x, %qkv, _, _, _) {ta=0, tb=1}
  %o: f32[T,8], %lse: f32[T,4] = attention(%q, %cu, %rng) {causal=1, heads=4, kv_heads=2, lse=1, p=0.1, scale=0.5, site=1}
  %a: f32[T,8] = matmul(%o, %out, _, _, _) {ta=0, tb=1}
  %s: f32[T,8] = add(%x, %a)
  forward @head
  %logits: f32[T,3] !output = matmul(%s, %classes, _, _, _) {ta=0, tb=1}
  %log_p: f32[T,3] = log_softmax(%logits)
  %loss: f32[1] !output = nll(%log_p, %labels, %count) {smoothing=0.0}
}
)";

TEST(ContextParallel, DividesTheRowsOfAllButAttention) {
  EXPECT_EQ(print_graph(testing::after_pass(kTokenLayer, context_parallel_pass(2))), R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T/2]
  input %rng: i64[2]
  input %labels: i32[T/2]
  input %count: f32[1]
  weight %words: f32[24,8]
  weight %qkv: f32[16,8]
  weight %out: f32[8,8]
  weight %classes: f32[3,8]
  input %own_starts: i32[B+1]
  forward @embeddings
  %x: f32[T/2,8] = embedding_sum(%own_starts, %ids, %words) {padding_id=-1}
  forward @h.0
  %q: f32[T/2,16] = matmul(%x, %qkv, _, _, _) {ta=0, tb=1}
  %q.heads: f32[T,8] = exchange_heads(%q) {axis="tensor", first=8, others=4, ranks=2, to="heads"}
  %o: f32[T,4], %lse: f32[T,2] = attention(%q.heads, %cu, %rng) {causal=1, heads=2, kv_heads=1, lse=1, p=0.1, scale=0.5, site=1, tensor_ranks=2}
  %o.rows: f32[T/2,8] = exchange_heads(%o) {axis="tensor", first=8, others=0, ranks=2, to="rows"}
  %a: f32[T/2,8] = matmul(%o.rows, %out, _, _, _) {ta=0, tb=1}
  %s: f32[T/2,8] = add(%x, %a)
  forward @head
  %logits.rows: f32[T/2,3] = matmul(%s, %classes, _, _, _) {ta=0, tb=1}
  %logits: f32[T,3] !output = gather_rows(%logits.rows) {axis="tensor", block=1, ranks=2, sums_gradient=0}
  %log_p: f32[T/2,3] = log_softmax(%logits.rows)
  %loss: f32[1] !output = nll(%log_p, %labels, %count) {smoothing=0.0}
  %loss.sum: f32[1] into %loss !output = all_reduce(%loss) {axis="tensor", ranks=2}
}
)");
}

// Backward pass: the gradient of an exchange_heads is the exchange in the other direction. Each rank has one term of the gradients of all
// weights, and a single op sums them over the ranks.
TEST(ContextParallel, SumsTheGradientsOfWeights) {
  Graph graph = testing::after_pass(kTokenLayer, context_parallel_pass(2));
  add_backward(graph, graph.newest(graph.find("loss")),
               std::vector<ValueId>{graph.find("words"), graph.find("qkv")});
  context_gradients_pass(2, 1 << 20).run(graph);
  verify(graph, "after autodiff");
  find_tails(graph);
  const std::string printed = print_graph(graph);
  for (const char* line :
       {"= exchange_heads(%d_o.rows) {axis=\"tensor\", first=8, others=0, ranks=2, to=\"heads\"}",
        "{axis=\"tensor\", first=8, others=4, ranks=2, to=\"rows\"}",
        "%d_qkv.of_rows: f32[16,8] into %d_qkv !gradient, %d_words.of_rows: f32[24,8] into %d_words "
        "!gradient = all_reduce(%d_qkv, %d_words) {axis=\"tensor\", ranks=2}"})
    EXPECT_NE(printed.find(line), std::string::npos) << line << "\n" << printed;
}

// The token that a classifier reads may belong to any rank. Therefore all ranks gather the rows, read the token from them, and compute the
// same gradients of the classifier's weights, which are not summed over the ranks.
TEST(ContextParallel, ReadsTheRowOfAClassifierFromGatheredRows) {
  std::string text = testing::replaced(kTokenLayer, "%labels: i32[T]", "%labels: i32[B]");
  text = testing::replaced(text, "  %logits: f32[T,3] !output = matmul(%s,",
                           "  %first: f32[B,8] = first_token(%s, %cu)\n  %logits: f32[B,3] = matmul(%first,");
  text = testing::replaced(text, "%log_p: f32[T,3]", "%log_p: f32[B,3]");
  Graph graph = testing::after_pass(text, context_parallel_pass(2));
  EXPECT_EQ(graph.find("loss.sum"), kNoValue);
  add_backward(graph, graph.find("loss"), std::vector<ValueId>{graph.find("classes"), graph.find("qkv")});
  context_gradients_pass(2, 1 << 20).run(graph);
  verify(graph, "after autodiff");
  find_tails(graph);
  const std::string printed = print_graph(graph);
  for (const char* line : {"%first: f32[B,8] = first_token(%s.gathered, %cu)",
                           "= own_rows(%first_token_bwd) {axis=\"tensor\", block=1, ranks=2}",
                           "%d_classes: f32[3,8] !gradient = ",
                           "%d_qkv.of_rows: f32[16,8] into %d_qkv !gradient = all_reduce(%d_qkv)"})
    EXPECT_NE(printed.find(line), std::string::npos) << line << "\n" << printed;
}

}  // namespace
}  // namespace plimsoll
