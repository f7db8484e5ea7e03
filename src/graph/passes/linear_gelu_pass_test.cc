#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

constexpr Bucket kBucket{.tokens = 64, .sequences = 8, .longest = 8};

constexpr const char* kLayer =
    "graph g {\n"
    "  input %x: bf16[T,4]\n"
    "  weight %w: bf16[6,4]\n"
    "  weight %b: f32[6]\n"
    "  forward @layer\n"
    "  %h: bf16[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n"
    "  %y: bf16[T,6] !output = bias_gelu(%h, %b)\n"
    "}\n";

Graph after(const std::string& text, const std::function<bool(const OpView&)>& has_kernel) {
  return testing::after_pass(text, linear_gelu_pass(has_kernel));
}

std::string after_with_kernel(const std::string& text) {
  return print_graph(after(text, [](const OpView&) { return true; }));
}

TEST(LinearGelu, ProductAndActivationBecomeOne) {
  EXPECT_EQ(after_with_kernel(kLayer),
            "graph g {\n"
            "  input %x: bf16[T,4]\n"
            "  weight %w: bf16[6,4]\n"
            "  weight %b: f32[6]\n"
            "  forward @layer\n"
            "  %y: bf16[T,6] !output = linear_gelu(%x, %w, %b)\n"
            "}\n");
}

TEST(LinearGelu, StaysWithoutAKernel) {
  int asked = 0;
  const Graph graph = after(kLayer, [&](const OpView& op) {
    ++asked;
    EXPECT_EQ(op.op.def, &linear_gelu_op());
    EXPECT_EQ(op.in_shape(1)[0].at(kBucket), 6);
    return false;
  });
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(print_graph(graph), unchanged(kLayer));
}

// The fused kernels compute no activation but GELU, so other activations are not fused.
TEST(LinearGelu, OtherActivationsStay) {
  const std::string relu = replaced(kLayer, "bias_gelu(%h, %b)", "bias_gelu(%h, %b) {activation=\"relu\"}");
  EXPECT_EQ(after_with_kernel(relu), unchanged(relu));
}

TEST(LinearGelu, SumsThatOthersReadStay) {
  const std::string output = replaced(kLayer, "%h: bf16[T,6]", "%h: bf16[T,6] !output");
  EXPECT_EQ(after_with_kernel(output), unchanged(output));
  const std::string read = replaced(kLayer, "\n}\n", "\n  %z: bf16[T,6] !output = gelu(%h)\n}\n");
  EXPECT_EQ(after_with_kernel(read), unchanged(read));
}

TEST(LinearGelu, OtherProductsStay) {
  const std::string plain = replaced(replaced(kLayer, "tb=1", "tb=0"), "%w: bf16[6,4]", "%w: bf16[4,6]");
  EXPECT_EQ(after_with_kernel(plain), unchanged(plain));
  const std::string mixed = replaced(kLayer, "%w: bf16", "%w: f32");
  EXPECT_EQ(after_with_kernel(mixed), unchanged(mixed));
}

TEST(LinearGelu, DecomposesIntoItsParts) {
  Graph graph = after(kLayer, [](const OpView&) { return true; });
  const Op op = graph.ops().front();
  const std::vector<ValueId> out = schema_of(op).decompose(graph, op);
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(graph.ops().size(), 3u);
  EXPECT_EQ(graph.ops()[1].def, &matmul_op());
  EXPECT_EQ(graph.ops()[2].def, &bias_gelu_op());
  EXPECT_EQ(graph.value(out[0]).type.shape, graph.value(op.outputs[0]).type.shape);
}

TEST(LinearGelu, CountsProductAndActivation) {
  const Graph graph = after(kLayer, [](const OpView&) { return true; });
  const Op& op = graph.ops().front();
  EXPECT_EQ(schema_of(op).flops({graph, op}, kBucket), 64.0 * 6.0 * (2.0 * 4.0 + 11.0));
}

TEST(LinearGelu, WrongOperandsAreRefused) {
  const std::string wrong = replaced(after_with_kernel(kLayer), "weight %b: f32[6]", "weight %b: f32[5]");
  EXPECT_THROW(verify(parse_graph(wrong, find_op), "wrong"), Error);
}

}  // namespace
}  // namespace plimsoll
