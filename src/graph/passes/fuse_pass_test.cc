#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

std::string after(const std::string& text) {
  return print_graph(testing::after_pass(text, fuse_pass()));
}

constexpr const char* kActivation =
    "graph g {\n"
    "  input %x: f32[T,4]\n"
    "  weight %w: f32[6,4]\n"
    "  weight %b: f32[6]\n"
    "  forward @layer\n"
    "  %h: f32[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n"
    "  %s: f32[T,6] = bias_add(%h, %b)\n"
    "  %y: f32[T,6] !output = gelu(%s)\n"
    "}\n";

TEST(Fuse, BiasAndGelu) {
  EXPECT_EQ(after(kActivation),
            "graph g {\n"
            "  input %x: f32[T,4]\n"
            "  weight %w: f32[6,4]\n"
            "  weight %b: f32[6]\n"
            "  forward @layer\n"
            "  %h: f32[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n"
            "  %y: f32[T,6] !output = bias_gelu(%h, %b)\n"
            "}\n");
}

TEST(Fuse, BiasAndAnyActivation) {
  const std::string silu = after(replaced(kActivation, "gelu(%s)", "gelu(%s) {activation=\"silu\"}"));
  EXPECT_NE(silu.find("= bias_gelu(%h, %b) {activation=\"silu\"}"), std::string::npos) << silu;
}

// Only bias_add reads the matrix product, so both are fused.
TEST(Fuse, MatmulAndBias) {
  EXPECT_EQ(after(replaced(kActivation, "gelu(%s)", "tanh(%s)")),
            "graph g {\n"
            "  input %x: f32[T,4]\n"
            "  weight %w: f32[6,4]\n"
            "  weight %b: f32[6]\n"
            "  forward @layer\n"
            "  %s: f32[T,6] = matmul(%x, %w, %b, _, _) {ta=0, tb=1}\n"
            "  %y: f32[T,6] !output = tanh(%s)\n"
            "}\n");
}

constexpr const char* kNorm =
    "graph g {\n"
    "  input %h: f32[T,4]\n"
    "  input %r: f32[T,4]\n"
    "  input %rng: i64[2]\n"
    "  weight %b: f32[4]\n"
    "  weight %gain: f32[4]\n"
    "  weight %beta: f32[4]\n"
    "  forward @layer\n"
    "  %s: f32[T,4] = bias_add(%h, %b)\n"
    "  %d: f32[T,4] = dropout(%s, %rng) {p=0.1, site=7}\n"
    "  %sum: f32[T,4] = add(%r, %d)\n"
    "  %n: f32[T,4], %rstd: f32[T] = normalize(%sum) {eps=1e-12}\n"
    "  %y: f32[T,4] !output = scale_shift(%n, %gain, %beta)\n"
    "}\n";

constexpr const char* kNormHead =
    "graph g {\n"
    "  input %h: f32[T,4]\n"
    "  input %r: f32[T,4]\n"
    "  input %rng: i64[2]\n"
    "  weight %b: f32[4]\n"
    "  weight %gain: f32[4]\n"
    "  weight %beta: f32[4]\n"
    "  forward @layer\n";

TEST(Fuse, BiasDropoutResidualAndNorm) {
  EXPECT_EQ(after(kNorm), std::string(kNormHead) +
                              "  %y: f32[T,4] !output, %n: f32[T,4], %rstd: f32[T] = "
                              "bias_dropout_residual_norm(%h, %b, %r, %gain, %beta, %rng) "
                              "{eps=1e-12, p=0.1, site=7}\n"
                              "}\n");
}

// The residual of an addition before a norm may be the first or the second operand: the pass takes the one that no dropout produces.
TEST(Fuse, TheResidualIsTheOperandWithoutDropout) {
  EXPECT_EQ(after(replaced(kNorm, "add(%r, %d)", "add(%d, %r)")), after(kNorm));
}

TEST(Fuse, ANormAlone) {
  const std::string alone =
      replaced(replaced(replaced(replaced(kNorm, "  %s: f32[T,4] = bias_add(%h, %b)\n", ""),
                                 "  %d: f32[T,4] = dropout(%s, %rng) {p=0.1, site=7}\n", ""),
                        "  %sum: f32[T,4] = add(%r, %d)\n", ""),
               "normalize(%sum)", "normalize(%h)");
  EXPECT_EQ(after(alone), std::string(kNormHead) +
                              "  %y: f32[T,4] !output, %n: f32[T,4], %rstd: f32[T] = "
                              "bias_dropout_residual_norm(%h, _, _, %gain, %beta, _) "
                              "{eps=1e-12, p=0.0, site=0}\n"
                              "}\n");
}

TEST(Fuse, ANormWithoutBeta) {
  const auto without_beta = [](const std::string& text) {
    return replaced(replaced(text, "  weight %beta: f32[4]\n", ""), "%gain, %beta", "%gain, _");
  };
  EXPECT_EQ(after(without_beta(kNorm)), without_beta(after(kNorm)));
}

// In a layer that normalizes its input, the next sub-layer reads the sum, so the fused op has the sum as an output.
const std::string kPreNorm =
    replaced(replaced(kNorm, "  %y: f32[T,4] !output", "  forward @next\n  %y: f32[T,4]"),
             "(%n, %gain, %beta)\n", "(%n, %gain, %beta)\n  %next: f32[T,4] !output = add(%sum, %y)\n");

TEST(Fuse, ASumThatLaterOpsReadIsAnOutputOfTheNorm) {
  EXPECT_EQ(after(kPreNorm), std::string(kNormHead) +
                                 "  %y: f32[T,4], %n: f32[T,4], %rstd: f32[T], %sum: f32[T,4] = "
                                 "bias_dropout_residual_norm(%h, %b, %r, %gain, %beta, %rng) "
                                 "{eps=1e-12, p=0.1, site=7, sum=1}\n"
                                 "  forward @next\n"
                                 "  %next: f32[T,4] !output = add(%sum, %y)\n"
                                 "}\n");
}

// The fused op, which also outputs the sum, is inserted at the position of the norm. An op before the norm that reads the sum would come
// too early, so the addition is then not fused.
TEST(Fuse, ASumThatAnEarlierOpReadsIsNotFused) {
  const std::string text =
      after(replaced(kPreNorm, "  %n: f32", "  %early: f32[T,4] !output = tanh(%sum)\n  %n: f32"));
  EXPECT_NE(text.find("%sum: f32[T,4] = add(%r, %d)"), std::string::npos) << text;
  EXPECT_NE(text.find("bias_dropout_residual_norm(%sum, _, _, %gain"), std::string::npos) << text;
}

constexpr const char* kRmsNorm =
    "graph g {\n"
    "  input %h: f32[T,4]\n"
    "  input %r: f32[T,4]\n"
    "  weight %gain: f32[4]\n"
    "  forward @layer\n"
    "  %sum: f32[T,4] = add(%r, %h)\n"
    "  %y: f32[T,4], %rstd: f32[T,1] = rms_norm(%sum, %gain, _, _) {eps=1e-06, heads=1, second_heads=0}\n"
    "  %next: f32[T,4] !output = add(%sum, %y)\n"
    "}\n";

TEST(Fuse, ResidualAndRmsNorm) {
  EXPECT_EQ(after(kRmsNorm),
            "graph g {\n"
            "  input %h: f32[T,4]\n"
            "  input %r: f32[T,4]\n"
            "  weight %gain: f32[4]\n"
            "  forward @layer\n"
            "  %y: f32[T,4], %rstd: f32[T,1], %sum: f32[T,4] = rms_norm(%h, %gain, _, %r) "
            "{eps=1e-06, heads=1, second_heads=0}\n"
            "  %next: f32[T,4] !output = add(%sum, %y)\n"
            "}\n");
}

// A norm that is computed per head is not fused with an addition, and an addition whose sum only the norm reads is not fused either.
TEST(Fuse, OtherRmsNormsAreNotFused) {
  const std::string of_heads =
      replaced(replaced(replaced(kRmsNorm, "%gain: f32[4]", "%gain: f32[2]"), "heads=1", "heads=2"),
               "f32[T,1] = rms", "f32[T,2] = rms");
  for (const std::string& text : {of_heads, replaced(kRmsNorm, "add(%sum, %y)", "add(%r, %y)")}) {
    const std::string fused = after(text);
    EXPECT_NE(fused.find("%sum: f32[T,4] = add(%r, %h)"), std::string::npos) << fused;
  }
}

constexpr const char* kLoss =
    "graph g {\n"
    "  input %logits: f32[B,3]\n"
    "  input %labels: i32[B]\n"
    "  input %denominator: f32[1]\n"
    "  forward @loss\n"
    "  %p: f32[B,3] = log_softmax(%logits)\n"
    "  %loss: f32[1] !output = nll(%p, %labels, %denominator) {smoothing=0.1}\n"
    "}\n";

TEST(Fuse, SoftmaxAndCrossEntropy) {
  EXPECT_EQ(after(kLoss),
            "graph g {\n"
            "  input %logits: f32[B,3]\n"
            "  input %labels: i32[B]\n"
            "  input %denominator: f32[1]\n"
            "  forward @loss\n"
            "  %loss: f32[1] !output = softmax_cross_entropy(%logits, %labels, %denominator) "
            "{smoothing=0.1}\n"
            "}\n");
}

// Ops are not fused if another op reads a value inside the pattern, because the fused op would not produce this value.
TEST(Fuse, ValuesThatOtherOpsReadStay) {
  const std::string activation =
      replaced(replaced(kActivation, "  %h: f32[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n", ""),
               "input %x: f32[T,4]", "input %h: f32[T,6]");
  const std::string output = replaced(activation, "%s: f32[T,6]", "%s: f32[T,6] !output");
  EXPECT_EQ(after(output), unchanged(output));
  const std::string read = replaced(activation, "\n}\n", "\n  %z: f32[T,6] !output = tanh(%s)\n}\n");
  EXPECT_EQ(after(read), unchanged(read));
  const std::string loss = replaced(kLoss, "%p: f32[B,3]", "%p: f32[B,3] !output");
  EXPECT_EQ(after(loss), unchanged(loss));
  const std::string norm = replaced(kNorm, "%n: f32[T,4],", "%n: f32[T,4] !output,");
  EXPECT_EQ(after(norm), unchanged(norm));
}

// Every fused op decomposes into the ops from which it was formed.
TEST(Fuse, FusedOpsDecomposeIntoTheirParts) {
  for (const char* text : {kActivation, kNorm, kLoss}) {
    Graph graph = testing::after_pass(text, fuse_pass());
    const Op fused = graph.ops().back();
    const size_t before = graph.ops().size();
    const std::vector<ValueId> out = schema_of(fused).decompose(graph, fused);
    ASSERT_EQ(out.size(), fused.outputs.size()) << text;
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(graph.value(out[i]).type, graph.value(fused.outputs[i]).type) << text;
    const Graph plain = parse_graph(text, find_op);
    size_t at = plain.ops().size() - (graph.ops().size() - before);
    for (size_t i = before; i < graph.ops().size(); ++i) EXPECT_EQ(graph.ops()[i].def, plain.ops()[at++].def);
  }
}

}  // namespace
}  // namespace plimsoll
