#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

constexpr const char* kLayer = testing::kProductAndNorm;

Graph after(const std::string& text, bool has_kernel) {
  return testing::after_pass(text, linear_norm_pass([has_kernel](const OpView& op) {
                               EXPECT_EQ(op.op.def, &linear_norm_op());
                               return has_kernel;
                             }));
}

// The fused op is at the position of the norm.
TEST(LinearNorm, TheProductTakesTheNorm) {
  EXPECT_EQ(print_graph(after(kLayer, true)),
            "graph g {\n"
            "  input %x: bf16[T,4]\n"
            "  input %r: bf16[T,6]\n"
            "  weight %w: bf16[6,4]\n"
            "  weight %b: f32[6]\n"
            "  weight %gain: f32[6]\n"
            "  weight %beta: f32[6]\n"
            "  forward @layer\n"
            "  %z: bf16[T,6] = gelu(%r)\n"
            "  %y: bf16[T,6] !output = linear_norm(%x, %w, %b, %z, %gain, %beta) {eps=1e-05}\n"
            "}\n");
}

TEST(LinearNorm, TheRowsTakeTheBytesOfAResidualThatDies) {
  const std::string inner = replaced(replaced(kLayer, "%y: bf16[T,6] !output", "%y: bf16[T,6]"), "\n}\n",
                                     "\n  %o: bf16[T,6] !output = gelu(%y)\n}\n");
  Graph graph = after(inner, true);
  in_place_pass().run(graph);
  EXPECT_EQ(graph.value(graph.find("y")).version_of, graph.find("z"));
  Graph read_again = after(replaced(inner, "gelu(%y)", "add(%z, %y)"), true);
  in_place_pass().run(read_again);
  EXPECT_EQ(read_again.value(read_again.find("y")).version_of, kNoValue);
}

TEST(LinearNorm, StaysWithoutAKernel) {
  EXPECT_EQ(print_graph(after(kLayer, false)), unchanged(kLayer));
}

TEST(LinearNorm, OtherPatternsStay) {
  const std::string no_residual = replaced(kLayer, "%b, %z, %gain", "%b, _, %gain");
  EXPECT_EQ(print_graph(after(no_residual, true)), unchanged(no_residual));
  const std::string no_bias = replaced(kLayer, "%b, %z, %gain", "_, %z, %gain");
  EXPECT_EQ(print_graph(after(no_bias, true)), unchanged(no_bias));
  const std::string read = replaced(kLayer, "\n}\n", "\n  %o: bf16[T,6] !output = gelu(%h)\n}\n");
  EXPECT_EQ(print_graph(after(read, true)), unchanged(read));
  const std::string normalized = replaced(kLayer, "\n}\n", "\n  %o: bf16[T,6] !output = gelu(%n)\n}\n");
  EXPECT_EQ(print_graph(after(normalized, true)), unchanged(normalized));
  const std::string dropped = testing::product_dropout_and_norm();
  EXPECT_EQ(print_graph(after(dropped, true)), unchanged(dropped));
}

TEST(LinearNorm, DecomposesIntoProductAndNorm) {
  Graph graph = after(kLayer, true);
  const Op op = graph.ops()[1];
  const std::vector<ValueId> out = schema_of(op).decompose(graph, op);
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(graph.ops().size(), 4u);
  EXPECT_EQ(graph.ops()[2].def, &matmul_op());
  EXPECT_EQ(graph.ops()[3].def, &bias_dropout_residual_norm_op());
  EXPECT_EQ(graph.value(out[0]).type.shape, graph.value(op.outputs[0]).type.shape);
  const Bucket bucket{.tokens = 64, .sequences = 8, .longest = 8};
  EXPECT_EQ(schema_of(op).flops({graph, op}, bucket), 64.0 * 6.0 * 21.0);
}

TEST(LinearNorm, WrongOperandsAreRefused) {
  const std::string wrong =
      replaced(print_graph(after(kLayer, true)), "linear_norm(%x, %w, %b, %z", "linear_norm(%x, %w, %b, %x");
  EXPECT_THROW(verify(parse_graph(wrong, find_op), "wrong"), Error);
}

}  // namespace
}  // namespace plimsoll
