#include <gtest/gtest.h>

#include "graph/analysis/analysis.h"
#include "graph/autodiff/autodiff.h"
#include "graph/passes/testing/pass_text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using testing::replaced;

constexpr Bucket kBucket{.tokens = 64, .sequences = 8, .longest = 8};

// A classifier whose logits [B,6] take 192 bytes for a batch of the size kBucket.
constexpr const char* kClassifier =
    "graph g {\n"
    "  input %x: f32[B,4]\n"
    "  weight %w: f32[6,4]\n"
    "  weight %b: f32[6]\n"
    "  input %labels: i32[B]\n"
    "  input %denominator: f32[1]\n"
    "  forward @head\n"
    "  %logits: f32[B,6] = matmul(%x, %w, %b, _, _) {ta=0, tb=1}\n"
    "  forward @loss\n"
    "  %loss: f32[1] !output = softmax_cross_entropy(%logits, %labels, %denominator) {smoothing=0.1}\n"
    "}\n";

Graph after(const std::string& text, int64_t most_bytes) {
  return testing::after_pass(text, chunked_loss_pass(kBucket, most_bytes));
}

TEST(ChunkedLoss, LargeLogitsAreComputedInChunks) {
  EXPECT_EQ(
      print_graph(after(kClassifier, 191)),
      "graph g {\n"
      "  input %x: f32[B,4]\n"
      "  weight %w: f32[6,4]\n"
      "  weight %b: f32[6]\n"
      "  input %labels: i32[B]\n"
      "  input %denominator: f32[1]\n"
      "  forward @head\n"
      "  %loss: f32[1] !output = linear_cross_entropy(%x, %w, %b, %labels, %denominator) {chunk_rows=2, "
      "smoothing=0.1}\n"
      "}\n");
}

TEST(ChunkedLoss, SmallLogitsStay) {
  EXPECT_EQ(print_graph(after(kClassifier, 192)), print_graph(parse_graph(kClassifier, find_op)));
}

TEST(ChunkedLoss, LogitsThatOthersReadStay) {
  const std::string output = replaced(kClassifier, "%logits: f32[B,6]", "%logits: f32[B,6] !output");
  EXPECT_EQ(print_graph(after(output, 0)), print_graph(parse_graph(output, find_op)));
  const std::string read = replaced(kClassifier, "\n}\n", "\n  %y: f32[B,6] !output = gelu(%logits)\n}\n");
  EXPECT_EQ(print_graph(after(read, 0)), print_graph(parse_graph(read, find_op)));
}

// 16-bit logits are cast to fp32 before the loss. The pass fuses this cast too, and the gradient of the weight has the same type as before.
TEST(ChunkedLoss, IncludesTheCastOf16BitLogits) {
  std::string text = replaced(kClassifier, "%x: f32", "%x: bf16");
  text = replaced(text, "%w: f32", "%w: bf16");
  text = replaced(text, "%logits: f32[B,6] = matmul(%x, %w, %b, _, _) {ta=0, tb=1}",
                  "%z: bf16[B,6] = matmul(%x, %w, %b, _, _) {gradient_dtype=\"f32\", ta=0, tb=1}\n"
                  "  %logits: f32[B,6] = cast(%z) {dtype=\"f32\"}");
  const Graph graph = after(text, 0);
  ASSERT_EQ(graph.ops().size(), 1u);
  EXPECT_EQ(graph.ops()[0].def, &linear_cross_entropy_op());
  EXPECT_EQ(graph.ops()[0].attributes.word("gradient_dtype"), "f32");
}

// If ranks divide the classes, the pass replaces the matrix product and class_sums, whose sums the ranks exchange, by one op that works on
// chunks of rows. The gradient of x is a sum over the ranks.
TEST(ChunkedLoss, ComputesTheSumsOfDividedClassesInChunks) {
  std::string text = replaced(
      kClassifier,
      "  %loss: f32[1] !output = softmax_cross_entropy(%logits, %labels, %denominator) {smoothing=0.1}\n",
      "  %sums: f32[B,4] = class_sums(%logits, %labels) {classes=11, smoothing=0.1, tensor_ranks=2}\n"
      "  %loss: f32[1] !output = class_sums_loss(%sums, %labels, %denominator) {classes=11, rank_classes=6, "
      "smoothing=0.1, tensor_ranks=2}\n");
  Graph graph = after(text, 0);
  EXPECT_NE(print_graph(graph).find(
                "%sums: f32[B,4] = linear_class_sums(%x, %w, %b, %labels) {chunk_rows=2, classes=11, "
                "smoothing=0.1, tensor_ranks=2}\n"),
            std::string::npos)
      << print_graph(graph);
  const std::vector<ValueId> wanted{graph.find("x"), graph.find("w"), graph.find("b")};
  const std::vector<ValueId> gradients = add_backward(graph, graph.find("loss"), wanted);
  EXPECT_EQ(graph.op(graph.value(gradients[0]).producer).def, &all_reduce_op());
  EXPECT_EQ(graph.op(graph.value(gradients[1]).producer).def, &linear_class_sums_grad_op());
  EXPECT_EQ(graph.op(graph.value(gradients[2]).producer).def, &linear_class_sums_grad_op());
  verify(graph, "with gradients");
  find_tails(graph);
}

// The fused backward op can add gradients to the buffers that accumulate them over micro-batches. In addition, the graph must not change
// when it is printed and parsed again.
TEST(ChunkedLoss, GradientsAccumulateAndTheTextRoundTrips) {
  Graph graph = after(kClassifier, 0);
  const std::vector<ValueId> wanted{graph.find("x"), graph.find("w"), graph.find("b")};
  const std::vector<ValueId> gradients = add_backward(graph, graph.find("loss"), wanted);
  ASSERT_EQ(gradients.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(graph.value(gradients[i]).type, graph.value(wanted[i]).type);
  graph.value(gradients[0]).is_parameter_gradient = false;
  graph.add_value("accumulate", {DType::kI32, Shape{1}}, Storage::kInput);
  accumulate_pass().run(graph);
  verify(graph, "after accumulate");
  find_tails(graph);
  for (const Op& op : graph.ops()) EXPECT_NE(op.def, &accumulate_op());
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("into %gradient/d_w"), std::string::npos) << text;
  EXPECT_NE(text.find("into %gradient/d_b"), std::string::npos) << text;
  const Graph parsed = parse_graph(text, find_op);
  verify(parsed, "after parsing");
  EXPECT_EQ(print_graph(parsed), text);
}

// The fused op and its two backward ops decompose into basic ops, whose results have the types of the fused ops' outputs.
TEST(ChunkedLoss, OpsDecompose) {
  Graph graph = after(kClassifier, 0);
  add_backward(graph, graph.find("loss"), std::vector<ValueId>{graph.find("x"), graph.find("w")});
  const std::vector<Op> ops = graph.ops();
  int checked = 0;
  for (const Op& op : ops) {
    if (!op.def->name().starts_with("linear_cross_entropy")) continue;
    const std::vector<ValueId> outputs = schema_of(op).decompose(graph, op);
    ASSERT_EQ(outputs.size(), op.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_EQ(graph.value(outputs[i]).type, graph.value(op.outputs[i]).type);
    ++checked;
  }
  EXPECT_EQ(checked, 3);
  verify(graph, "after decomposing");
}

TEST(ChunkedLoss, RefusesOperandsThatDoNotFit) {
  const std::string good = print_graph(after(kClassifier, 0));
  for (const auto& [from, to] : {std::pair{"%w: f32[6,4]", "%w: f32[6,5]"},
                                 {"%b: f32[6]", "%b: f32[4]"},
                                 {"%labels: i32[B]", "%labels: f32[B]"},
                                 {"%labels: i32[B]", "%labels: i32[7]"},
                                 {"chunk_rows=2", "chunk_rows=0"}}) {
    EXPECT_THROW(parse_graph(replaced(good, from, to), find_op), Error) << to;
  }
}

// In a language model rows are tokens, rows after the last token have no label, and an evaluation counts the correct predictions.
TEST(ChunkedLoss, ChunksRowsOfTokensAndCountsTheCorrectOnes) {
  std::string text = replaced(kClassifier, "%x: f32[B,4]", "%x: f32[T,4]");
  text = replaced(text, "%labels: i32[B]", "%labels: i32[T]");
  text = replaced(text, "%logits: f32[B,6]", "%logits: f32[T,6]");
  text = replaced(text, "\n}\n", "\n  %num_correct: i32[1] !output = count_correct(%logits, %labels)\n}\n");
  const Graph graph = after(text, 0);
  EXPECT_NE(print_graph(graph).find("  %loss: f32[1] !output, %num_correct: i32[1] !output = "
                                    "linear_cross_entropy(%x, %w, %b, %labels, %denominator) "
                                    "{chunk_rows=16, counts_correct=1, smoothing=0.1}\n"),
            std::string::npos)
      << print_graph(graph);
  verify(graph, "after the pass");
  find_tails(graph);
  // If a second op reads the logits, they must exist, so nothing is fused.
  const std::string read = replaced(text, "\n}\n", "\n  %y: f32[T,6] !output = gelu(%logits)\n}\n");
  EXPECT_EQ(print_graph(after(read, 0)), print_graph(parse_graph(read, find_op)));
}

TEST(ChunkedLoss, ChunksAreAQuarterOrSixteenMebibytes) {
  EXPECT_EQ(loss_chunk_rows(8, 24), 2);
  EXPECT_EQ(loss_chunk_rows(5, 24), 2);
  EXPECT_EQ(loss_chunk_rows(1, 24), 1);
  EXPECT_EQ(loss_chunk_rows(256, 400000), 32);
  EXPECT_EQ(loss_chunk_rows(512, 4000000), 16);
  EXPECT_EQ(loss_chunk_rows(20, 4000000), 5);
}

}  // namespace
}  // namespace plimsoll
