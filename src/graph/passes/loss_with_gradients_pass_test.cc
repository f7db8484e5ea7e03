#include <gtest/gtest.h>

#include "graph/analysis/analysis.h"
#include "graph/autodiff/autodiff.h"
#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::replaced;

constexpr const char* kClassifier =
    "graph g {\n"
    "  input %x: f32[B,4]\n"
    "  weight %w: f32[6,4]\n"
    "  weight %b: f32[6]\n"
    "  input %labels: i32[B]\n"
    "  input %denominator: f32[1]\n"
    "  forward @head\n"
    "  %loss: f32[1] !output = linear_cross_entropy(%x, %w, %b, %labels, %denominator) {chunk_rows=2, "
    "smoothing=0.1}\n"
    "}\n";

// Parses a graph and appends a backward pass that computes the gradients of the values named in `wanted`. With `accumulate` the gradients
// are added to persistent buffers.
Graph differentiated(const std::vector<std::string>& wanted, const std::string& text = kClassifier,
                     bool accumulate = false) {
  Graph graph = parse_graph(text, find_op);
  std::vector<ValueId> values;
  for (const std::string& name : wanted) values.push_back(graph.find(name));
  for (const ValueId gradient : add_backward(graph, graph.find("loss"), values))
    graph.value(gradient).storage = accumulate ? Storage::kTransient : Storage::kOutput;
  if (accumulate) {
    graph.add_value("accumulate", {DType::kI32, Shape{1}}, Storage::kInput);
    accumulate_pass().run(graph);
  }
  return graph;
}

constexpr Bucket kBucket{.tokens = 64, .sequences = 4, .longest = 8};

std::string after(Graph graph, const Bucket& bucket = kBucket) {
  loss_with_gradients_pass(bucket).run(graph);
  verify(graph, "after the pass");
  find_tails(graph);
  return print_graph(graph);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(LossWithGradients, OneOpComputesTheLossAndAllGradients) {
  const std::string text = after(differentiated({"x", "w", "b"}));
  EXPECT_TRUE(
      contains(text,
               "%loss: f32[1] !output, %unread: f32[1], %d_x: f32[B,4] !output !gradient, %d_w: f32[6,4] "
               "!output !gradient, "
               "%d_b: f32[6] !output !gradient = "
               "linear_cross_entropy_with_gradients(%x, %w, %b, %labels, %denominator, %d_loss, _, _, _) "
               "{chunk_rows=2, computes_d_w=1, computes_d_x=1, smoothing=0.1}"))
      << text;
  EXPECT_FALSE(contains(text, "linear_cross_entropy(")) << text;
  EXPECT_FALSE(contains(text, "linear_cross_entropy_bwd(")) << text;
  EXPECT_FALSE(contains(text, "linear_cross_entropy_grad(")) << text;
}

// A frozen weight has no gradient, and neither has the input of a model of which only the head is trained. The fused op has these outputs
// nevertheless, and its attributes state which gradients it computes.
TEST(LossWithGradients, StatesWhichGradientsAreComputed) {
  EXPECT_TRUE(contains(after(differentiated({"x"})), "computes_d_w=0, computes_d_x=1"));
  EXPECT_TRUE(contains(after(differentiated({"w"})), "computes_d_w=1, computes_d_x=0"));
}

TEST(LossWithGradients, KeepsTheBuffersInWhichGradientsAccumulate) {
  const std::string text = after(differentiated({"w", "b"}, kClassifier, true));
  EXPECT_TRUE(contains(text, "into %gradient/d_w")) << text;
  EXPECT_TRUE(contains(text, "into %gradient/d_b")) << text;
  EXPECT_TRUE(contains(text, "%d_loss, %gradient/d_w, %gradient/d_b, %accumulate)")) << text;
}

// If the classes are divided among ranks, the loss depends on sums that the ranks exchange. One op after the exchange computes both
// gradients.
TEST(LossWithGradients, OneOpComputesTheGradientsOfDividedClasses) {
  const std::string divided = replaced(
      kClassifier,
      "  %loss: f32[1] !output = linear_cross_entropy(%x, %w, %b, %labels, %denominator) {chunk_rows=2, "
      "smoothing=0.1}\n",
      "  %sums: f32[B,4] = linear_class_sums(%x, %w, %b, %labels) {chunk_rows=2, classes=11, smoothing=0.1, "
      "tensor_ranks=2}\n"
      "  %loss: f32[1] !output = class_sums_loss(%sums, %labels, %denominator) {classes=11, rank_classes=6, "
      "smoothing=0.1, tensor_ranks=2}\n");
  const std::string text = after(differentiated({"x", "w", "b"}, divided));
  EXPECT_TRUE(contains(text, "= linear_class_sums_gradients(%x, %w, %b, %labels, %d_class_sums, _, _, _)"))
      << text;
  EXPECT_FALSE(contains(text, "linear_class_sums_bwd(")) << text;
  EXPECT_FALSE(contains(text, "linear_class_sums_grad(")) << text;
  const std::string added = after(differentiated({"x", "w", "b"}, divided, true));
  EXPECT_TRUE(contains(added, "%gradient/d_w, %gradient/d_b, %accumulate)")) << added;
  // If no gradient of x is needed, only one backward op computes the logits, so fusing would save nothing.
  EXPECT_TRUE(contains(after(differentiated({"w", "b"}, divided)), "linear_class_sums_grad("));
}

// With fewer rows than columns the gradient of the weight is larger than the logits, so a separate op computes it later.
TEST(LossWithGradients, KeepsTheGradientOfAWideWeightForTheEnd) {
  constexpr Bucket kFew{.tokens = 64, .sequences = 3, .longest = 8};
  const auto is_fused = [&](const Graph& graph) {
    return contains(after(graph, kFew), "linear_cross_entropy_with_gradients");
  };
  EXPECT_FALSE(is_fused(differentiated({"x", "w"})));
  EXPECT_TRUE(is_fused(differentiated({"x"})));
  EXPECT_TRUE(is_fused(differentiated({"w"}, kClassifier, true)));
}

TEST(LossWithGradients, LeavesOtherGraphs) {
  const auto expect_same = [](const Graph& graph) { EXPECT_EQ(after(graph), print_graph(graph)); };
  expect_same(parse_graph(kClassifier, find_op));
  // If the gradient of the loss is computed from the loss, the ops are not fused.
  const std::string squared = replaced(kClassifier, "\n}\n", "\n  %y: f32[1] !output = gelu(%loss)\n}\n");
  Graph of_function = parse_graph(squared, find_op);
  add_backward(of_function, of_function.find("y"), std::vector<ValueId>{of_function.find("x")});
  expect_same(of_function);
  // Correct predictions are counted in programs without gradients only.
  const std::string counted =
      replaced(replaced(kClassifier, "%loss: f32[1] !output", "%loss: f32[1] !output, %n: i32[1] !output"),
               "chunk_rows=2", "chunk_rows=2, counts_correct=1");
  expect_same(differentiated({"x", "w"}, counted));
}

// The fused op returns the z-loss too.
TEST(LossWithGradients, KeepsTheZLoss) {
  const std::string with_z =
      replaced(replaced(kClassifier, "%loss: f32[1] !output", "%loss: f32[1] !output, %z: f32[1] !output"),
               "smoothing=0.1", "smoothing=0.1, z_loss=0.01");
  Graph graph = differentiated({"x", "w"}, with_z);
  loss_with_gradients_pass(kBucket).run(graph);
  const std::string text = print_graph(graph);
  EXPECT_TRUE(contains(text, "%loss: f32[1] !output, %z: f32[1] !output, %d_x: f32[B,4] !output !gradient"))
      << text;
  EXPECT_TRUE(contains(text, "computes_d_x=1, smoothing=0.1, z_loss=0.01}")) << text;
  for (const Op& op : std::vector<Op>(graph.ops())) {
    if (op.def != &linear_cross_entropy_with_gradients_op()) continue;
    EXPECT_EQ(schema_of(op).decompose(graph, op).size(), op.outputs.size());
  }
}

TEST(LossWithGradients, TheOpDecomposesAndTheTextRoundTrips) {
  Graph graph = differentiated({"x", "w", "b"});
  loss_with_gradients_pass(kBucket).run(graph);
  const std::string text = print_graph(graph);
  EXPECT_EQ(print_graph(parse_graph(text, find_op)), text);
  int checked = 0;
  for (const Op& op : std::vector<Op>(graph.ops())) {
    if (op.def != &linear_cross_entropy_with_gradients_op()) continue;
    const std::vector<ValueId> outputs = schema_of(op).decompose(graph, op);
    ASSERT_EQ(outputs.size(), op.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_EQ(graph.value(outputs[i]).type, graph.value(op.outputs[i]).type);
    ++checked;
  }
  EXPECT_EQ(checked, 1);
}

}  // namespace
}  // namespace plimsoll
