#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

constexpr const char* kLayer =
    "graph g {\n"
    "  input %cu: i32[B+1]\n"
    "  input %x: bf16[T,4]\n"
    "  weight %w: bf16[12,4]\n"
    "  weight %b: bf16[12]\n"
    "  forward @layer\n"
    "  %qkv: bf16[T,12] = matmul(%x, %w, %b, _, _) {ta=0, tb=1}\n"
    "  %a: bf16[T,4] = attention(%qkv, %cu, _) {causal=0, heads=2, lse=0, p=0.0, scale=0.5, site=7}\n"
    "  %y: bf16[B,4] !output = first_token(%a, %cu)\n"
    "}\n";

Graph after(const std::string& text, bool has_kernel = true) {
  return testing::after_pass(text, first_token_attention_pass([has_kernel](const OpView& op) {
                               EXPECT_EQ(op.op.def, &first_token_attention_op());
                               return has_kernel;
                             }));
}

TEST(FirstTokenAttention, ProductAttentionAndFirstTokenBecomeOne) {
  EXPECT_EQ(print_graph(after(kLayer)),
            "graph g {\n"
            "  input %cu: i32[B+1]\n"
            "  input %x: bf16[T,4]\n"
            "  weight %w: bf16[12,4]\n"
            "  weight %b: bf16[12]\n"
            "  forward @layer\n"
            "  %y: bf16[B,4] !output = first_token_attention(%x, %w, %b, %cu) {heads=2, scale=0.5}\n"
            "}\n");
}

TEST(FirstTokenAttention, StaysWithoutAKernel) {
  EXPECT_EQ(print_graph(after(kLayer, false)), unchanged(kLayer));
}

TEST(FirstTokenAttention, OtherPatternsStay) {
  for (const std::string& text :
       {replaced(kLayer, "\n}\n", "\n  %z: bf16[T,4] !output = gelu(%a)\n}\n"),
        replaced(kLayer, "\n}\n", "\n  %z: bf16[T,12] !output = gelu(%qkv)\n}\n"),
        replaced(kLayer, "causal=0", "causal=1"), replaced(kLayer, "site=7", "site=7, window=3"),
        replaced(replaced(replaced(kLayer, "%a: bf16[T,4]", "%a: bf16[T,6]"), "bf16[B,4]", "bf16[B,6]"),
                 "heads=2,", "heads=2, kv_heads=1,"),
        replaced(kLayer, "%w, %b, _", "%w, _, _"),
        replaced(replaced(kLayer, "first_token(%a, %cu)", "first_token(%a, %other)"), "  input %x",
                 "  input %other: i32[B+1]\n  input %x")}) {
    EXPECT_EQ(print_graph(after(text)), unchanged(text)) << text;
  }
}

TEST(FirstTokenAttention, DecomposesIntoItsParts) {
  Graph graph = after(kLayer);
  const Op op = graph.ops().front();
  const std::vector<ValueId> out = schema_of(op).decompose(graph, op);
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(graph.ops().size(), 4u);
  EXPECT_EQ(graph.ops()[1].def, &matmul_op());
  EXPECT_EQ(graph.ops()[2].def, &attention_op());
  EXPECT_EQ(graph.ops()[3].def, &first_token_op());
  EXPECT_EQ(graph.value(out[0]).type.shape, graph.value(op.outputs[0]).type.shape);
}

TEST(FirstTokenAttention, CountsNoKeysAndValues) {
  const Graph graph = after(kLayer);
  const Op& op = graph.ops().front();
  const Bucket bucket{.tokens = 64, .sequences = 8, .longest = 8};
  EXPECT_EQ(schema_of(op).flops({graph, op}, bucket), 4.0 * (4.0 * 64.0 * 2.0 + 6.0 * 8.0 * 4.0));
}

TEST(FirstTokenAttention, WrongOperandsAreRefused) {
  const std::string wrong =
      replaced(print_graph(after(kLayer)), "weight %b: bf16[12]", "weight %b: bf16[11]");
  EXPECT_THROW(verify(parse_graph(wrong, find_op), "wrong"), Error);
}

}  // namespace
}  // namespace plimsoll
