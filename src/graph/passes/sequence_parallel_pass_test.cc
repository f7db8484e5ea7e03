#include <gtest/gtest.h>

#include <string>

#include "graph/autodiff/autodiff.h"
#include "graph/ops/ops.h"
#include "graph/passes/testing/pass_text.h"
#include "graph/passes/testing/update_text.h"

namespace plimsoll {
namespace {

// A layer that is divided among two ranks. Each rank multiplies by its rows of the weight %up, and by its columns of the weight %down.
constexpr const char* kDividedLayer = R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T]
  input %rng: i64[2]
  weight %words: f32[24,4] !split=2/192/37x4
  weight %gain: f32[4]
  weight %up: f32[6,4] !split=2/24/12x4
  weight %down: f32[4,6] !split=2/12/4x12
  weight %c: f32[4]
  weight %out: f32[3,4]
  forward @embeddings
  %x: f32[T,4] = embedding_sum(%cu, %ids, %words) {padding_id=-1, tensor_ranks=2}
  %x.sum: f32[T,4] into %x = all_reduce(%x) {axis="tensor", ranks=2}
  forward @h.0
  %n: f32[T,4], %rstd: f32[T] = normalize(%x.sum) {eps=1e-05}
  %y: f32[T,4] = scale_shift(%n, %gain, _)
  %u: f32[T,6] = matmul(%y, %up, _, _, _) {ta=0, tb=1, tensor_ranks=2}
  %g: f32[T,6] = gelu(%u)
  %d: f32[T,4] = matmul(%g, %down, _, _, _) {ta=0, tb=1}
  %d.sum: f32[T,4] into %d = all_reduce(%d) {axis="tensor", ranks=2}
  %b: f32[T,4] = bias_add(%d.sum, %c)
  %drop: f32[T,4] = dropout(%b, %rng) {p=0.1, site=1}
  %s: f32[T,4] = add(%x.sum, %drop)
  forward @head
  %first: f32[B,4] = first_token(%s, %cu)
  %logits: f32[B,3] !output = matmul(%first, %out, _, _, _) {ta=0, tb=1}
}
)";

TEST(SequenceParallel, DividesTheRowsBetweenProducts) {
  EXPECT_EQ(print_graph(testing::after_pass(kDividedLayer, sequence_parallel_pass(2))), R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T]
  input %rng: i64[2]
  weight %words: f32[24,4] !split=2/192/37x4
  weight %gain: f32[4]
  weight %up: f32[6,4] !split=2/24/12x4
  weight %down: f32[4,6] !split=2/12/4x12
  weight %c: f32[4]
  weight %out: f32[3,4]
  forward @embeddings
  %x: f32[T,4] = embedding_sum(%cu, %ids, %words) {padding_id=-1, tensor_ranks=2}
  %x.sum: f32[T,4] into %x = reduce_scatter(%x) {axis="tensor", block=1, ranks=2}
  %x.sum.rows: f32[T/2,4] = own_rows(%x.sum) {axis="tensor", block=1, ranks=2}
  forward @h.0
  %n: f32[T/2,4], %rstd: f32[T/2] = normalize(%x.sum.rows) {eps=1e-05}
  %y: f32[T/2,4] = scale_shift(%n, %gain, _)
  %y.gathered: f32[T,4] = gather_rows(%y) {axis="tensor", block=1, ranks=2, sums_gradient=1}
  %u: f32[T,6] = matmul(%y.gathered, %up, _, _, _) {ta=0, tb=1}
  %g: f32[T,6] = gelu(%u)
  %d: f32[T,4] = matmul(%g, %down, _, _, _) {ta=0, tb=1}
  %d.sum: f32[T,4] into %d = reduce_scatter(%d) {axis="tensor", block=1, ranks=2}
  %d.sum.rows: f32[T/2,4] = own_rows(%d.sum) {axis="tensor", block=1, ranks=2}
  %b: f32[T/2,4] = bias_add(%d.sum.rows, %c)
  %drop: f32[T/2,4] = dropout(%b, %rng) {p=0.1, site=1}
  %s: f32[T/2,4] = add(%x.sum.rows, %drop)
  forward @head
  %s.gathered: f32[T,4] = gather_rows(%s) {axis="tensor", block=1, ranks=2, sums_gradient=0}
  %first: f32[B,4] = first_token(%s.gathered, %cu)
  %logits: f32[B,3] !output = matmul(%first, %out, _, _, _) {ta=0, tb=1}
}
)");
}

// The model's classifier also reads %y, the input of a divided product. Gathering the rows of %y then does not sum their gradient over the
// ranks. Instead the product keeps {tensor_ranks}, which sums it, as in a model without sequence parallelism.
TEST(SequenceParallel, KeepsTheSumOfAProductNextToAnotherReader) {
  const std::string text = testing::replaced(kDividedLayer, "first_token(%s, %cu)", "first_token(%y, %cu)");
  const std::string divided = print_graph(testing::after_pass(text, sequence_parallel_pass(2)));
  EXPECT_NE(divided.find("gather_rows(%y) {axis=\"tensor\", block=1, ranks=2, sums_gradient=0}"),
            std::string::npos)
      << divided;
  EXPECT_NE(divided.find("%u: f32[T,6] = matmul(%y.gathered, %up, _, _, _) {ta=0, tb=1, tensor_ranks=2}"),
            std::string::npos)
      << divided;
}

// An embedding lookup of a table that every rank stores completely needs no sum over the ranks; each rank selects its own rows of the
// result.
TEST(SequenceParallel, TakesTheRowsOfAWholeLookup) {
  std::string text = testing::replaced(kDividedLayer, "{padding_id=-1, tensor_ranks=2}", "{padding_id=-1}");
  text =
      testing::replaced(text, "  %x.sum: f32[T,4] into %x = all_reduce(%x) {axis=\"tensor\", ranks=2}\n", "");
  for (const char* reader : {"normalize(%x.sum)", "add(%x.sum,"}) {
    std::string read = reader;
    read.replace(read.find(".sum"), 4, "");
    text = testing::replaced(text, reader, read);
  }
  const std::string divided = print_graph(testing::after_pass(text, sequence_parallel_pass(2)));
  EXPECT_NE(divided.find("%x.rows: f32[T/2,4] = own_rows(%x) {axis=\"tensor\", block=1, ranks=2}"),
            std::string::npos)
      << divided;
  EXPECT_NE(divided.find("%s: f32[T/2,4] = add(%x.rows, %drop)"), std::string::npos) << divided;
}

// Gathered rows are read either by matrix products, each of which has one rank's part of a weight, or by a head. In the first case a
// reduce_scatter sums the gradients of the rows over the ranks. In the second case every rank computes the whole gradient, and nothing is
// exchanged.
TEST(SequenceParallel, HasTheGradientsOfBothKindsOfGather) {
  std::string text = testing::replaced(
      kDividedLayer, "  weight %out",
      "  input %labels: f32[B,1]\n  input %rows: i32[1]\n  input %count: f32[1]\n  weight %out");
  text = testing::replaced(text, "weight %out: f32[3,4]", "weight %out: f32[1,4]");
  text = testing::replaced(text, "  %logits: f32[B,3] !output", "  %logits: f32[B,1]");
  text =
      testing::replaced(text, "{ta=0, tb=1}\n}\n",
                        "{ta=0, tb=1}\n  %loss: f32[1] !output = mse(%logits, %labels, %count, %rows)\n}\n");
  Graph graph = testing::after_pass(text, sequence_parallel_pass(2));
  add_backward(graph, graph.find("loss"), std::vector<ValueId>{graph.find("up"), graph.find("gain")});
  verify(graph, "after autodiff");
  find_tails(graph);
  const std::string printed = print_graph(graph);
  const std::string backward = printed.substr(printed.find("  backward"));
  EXPECT_EQ(backward, R"(  backward @head
  %d_loss: f32[1] = fill(%loss) {value=1.0}
  %d_logits: f32[B,1] = mse_bwd(%logits, %labels, %count, %rows, %d_loss)
  %d_first: f32[B,4] = matmul(%d_logits, %out, _, _, _) {ta=0, tb=0}
  %first_token_bwd: f32[T,4] = first_token_bwd(%d_first, %cu)
  %first_token_bwd.rows: f32[T/2,4] = own_rows(%first_token_bwd) {axis="tensor", block=1, ranks=2}
  backward @h.0
  %d_dropout: f32[T/2,4] = dropout(%first_token_bwd.rows, %rng) {p=0.1, site=1}
  %d_d.sum: f32[T,4] = gather_rows(%d_dropout) {axis="tensor", block=1, ranks=2, sums_gradient=0}
  %d_g: f32[T,6] = matmul(%d_d.sum, %down, _, _, _) {ta=0, tb=0}
  %gelu_bwd: f32[T,6] = gelu_bwd(%u, %d_g)
  %d_up: f32[6,4] !gradient = matmul(%gelu_bwd, %y.gathered, _, _, _) {ta=1, tb=0}
  %d_y.gathered: f32[T,4] = matmul(%gelu_bwd, %up, _, _, _) {ta=0, tb=0}
  %d_y.gathered.sum: f32[T,4] into %d_y.gathered = reduce_scatter(%d_y.gathered) {axis="tensor", block=1, ranks=2}
  %d_y.gathered.rows: f32[T/2,4] = own_rows(%d_y.gathered.sum) {axis="tensor", block=1, ranks=2}
  %d_normalized: f32[T/2,4], %d_gain: f32[4] !gradient = scale_shift_bwd(%n, %gain, %d_y.gathered.rows, _, _, _) {bias=0}
}
)");
}

// Returns the text of an update whose gradients are not yet summed over ranks that train on different batches. The gradient of the bias is
// computed from the rows of one of two ranks of a tensor-parallel group.
std::string update_with_row_gradient() {
  std::string text =
      testing::replaced(testing::kUpdateOfTwoRanks, "input %y: f32[B,256]", "input %y: f32[T/2,256]");
  text = testing::replaced(text, "input %x: f32[B,4]", "input %x: f32[B,4]\n  input %z: f32[B,256]");
  text = testing::replaced(text, "matmul(%x, %y,", "matmul(%x, %z,");
  const size_t sums = text.find("  %d_w.sum: "), optimizer = text.find("  optimizer @");
  text.erase(sums, optimizer - sums);
  for (const char* name : {"%d_w", "%d_b"}) {
    const std::string sum = std::string(name) + ".sum";
    for (size_t at = text.find(sum); at != std::string::npos; at = text.find(sum))
      text.replace(at, sum.size(), name);
  }
  return text;
}

// Gradients of weights that were computed from the rows of a rank are summed over the tensor-parallel group at the end of the backward
// pass, and the norm and the update read the sums.
TEST(RowGradients, AreSummedBeforeTheUpdate) {
  const std::string before = update_with_row_gradient();
  std::string expected = before;
  const size_t optimizer = expected.find("  optimizer @");
  expected.insert(optimizer,
                  "  %d_b.of_rows: f32[256] into %d_b !gradient = all_reduce(%d_b) "
                  "{axis=\"tensor\", ranks=2}\n");
  // Later passes use only the sum over the ranks as the gradient of the weight.
  expected = testing::replaced(expected, "%d_b: f32[256] !gradient", "%d_b: f32[256]");
  expected = testing::replaced(expected, "global_norm(%d_w, %d_b,", "global_norm(%d_w, %d_b.of_rows,");
  expected = testing::replaced(expected, "%b, %d_b,", "%b, %d_b.of_rows,");
  Graph graph = parse_graph(before, find_op);
  row_gradients_pass(2).run(graph);
  verify(graph, "after the pass");
  EXPECT_EQ(print_graph(graph), expected);
}

// Ranks that train on different batches then add up these sums, so that every gradient is summed once over each group of ranks.
TEST(RowGradients, AreThenSummedOverBatches) {
  Graph graph = parse_graph(update_with_row_gradient(), find_op);
  row_gradients_pass(2).run(graph);
  reduce_gradients_pass(2, 1 << 20).run(graph);
  verify(graph, "after the passes");
  const std::string printed = print_graph(graph);
  EXPECT_NE(
      printed.find("%d_w.sum: f32[4,256] into %d_w !gradient, %d_b.of_rows.sum: f32[256] into %d_b.of_rows "
                   "!gradient = all_reduce(%d_w, %d_b.of_rows) {ranks=2}\n"),
      std::string::npos)
      << printed;
  EXPECT_NE(printed.find("global_norm(%d_w.sum, %d_b.of_rows.sum,"), std::string::npos) << printed;
}

TEST(SequenceParallel, DividesNothingForOneRank) {
  EXPECT_EQ(print_graph(testing::after_pass(kDividedLayer, sequence_parallel_pass(1))),
            testing::unchanged(kDividedLayer));
}

}  // namespace
}  // namespace plimsoll
