// Tests recomputation with graphs as text. The graph has two blocks, each of a matrix product, a tanh and another matrix product, and a
// head that works on rows.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/analysis/analysis.h"
#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

constexpr const char* kGraph = R"(graph train {
  input %x: f32[T,8]
  weight %v0: f32[8,8]
  weight %w0: f32[8,8]
  weight %v1: f32[8,8]
  weight %w1: f32[8,8]
  forward @layer.0.inner
  %a0: f32[T,8] = matmul(%x, %v0, _, _, _) {ta=0, tb=1}
  %b0: f32[T,8] = tanh(%a0)
  forward @layer.0.outer
  %c0: f32[T,8] = matmul(%b0, %w0, _, _, _) {ta=0, tb=1}
  forward @layer.1.inner
  %a1: f32[T,8] = matmul(%c0, %v1, _, _, _) {ta=0, tb=1}
  %b1: f32[T,8] = tanh(%a1)
  forward @layer.1.outer
  %c1: f32[T,8] = matmul(%b1, %w1, _, _, _) {ta=0, tb=1}
  forward @head
  %y: f32[T,8] = tanh(%c1)
  backward @head
  %d_y: f32[T,8] = fill(%y) {value=1.0}
  %d_c1: f32[T,8] = tanh_bwd(%y, %d_y)
  backward @layer.1.outer
  %d_w1: f32[8,8] !gradient = matmul(%d_c1, %b1, _, _, _) {ta=1, tb=0}
  %d_b1: f32[T,8] = matmul(%d_c1, %w1, _, _, _) {ta=0, tb=0}
  backward @layer.1.inner
  %d_a1: f32[T,8] = tanh_bwd(%b1, %d_b1)
  %d_v1: f32[8,8] !gradient = matmul(%d_a1, %c0, _, _, _) {ta=1, tb=0}
  %d_c0: f32[T,8] = matmul(%d_a1, %v1, _, _, _) {ta=0, tb=0}
  backward @layer.0.outer
  %d_w0: f32[8,8] !gradient = matmul(%d_c0, %b0, _, _, _) {ta=1, tb=0}
  %d_b0: f32[T,8] = matmul(%d_c0, %w0, _, _, _) {ta=0, tb=0}
  backward @layer.0.inner
  %d_a0: f32[T,8] = tanh_bwd(%b0, %d_b0)
  %d_v0: f32[8,8] !gradient = matmul(%d_a0, %x, _, _, _) {ta=1, tb=0}
}
)";

// Returns the lines of the ops of the backward segment after the pass.
std::vector<std::string> backward_after(const RecomputeChoice& choice) {
  Graph graph = parse_graph(kGraph, find_op);
  PassManager({}).run(graph, recompute_pass(choice));
  const std::string text = print_graph(graph);
  std::vector<std::string> lines;
  bool is_backward = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("  backward @")) is_backward = true;
    if (is_backward && line.starts_with("  %")) lines.push_back(line.substr(2));
  }
  return lines;
}

std::vector<std::string> made_again(const RecomputeChoice& choice) {
  std::vector<std::string> lines = backward_after(choice);
  std::erase_if(lines, [](const std::string& line) { return line.find(".again: ") == std::string::npos; });
  return lines;
}

TEST(RecomputePass, KeepsValuesWithoutACheapRecipe) {
  EXPECT_TRUE(made_again({.policy = RecomputePolicy::kNone}).empty());
  EXPECT_TRUE(made_again({.policy = RecomputePolicy::kCheap}).empty());
}

// The backward pass of a norm reads the normalized values and the statistics of the rows. One op recomputes both.
TEST(RecomputePass, ARecipeOfTwoValuesRunsOnce) {
  Graph graph = parse_graph(R"(graph train {
  input %x: f32[T,8]
  weight %g: f32[8]
  weight %w: f32[8,8]
  forward @layer.0
  %y: f32[T,8], %rstd: f32[T,1] = rms_norm(%x, %g, _, _) {eps=1e-06, heads=1, second_heads=0}
  %z: f32[T,8] = matmul(%y, %w, _, _, _) {ta=0, tb=1}
  forward @head
  %loss: f32[T,8] = tanh(%z)
  backward @head
  %d: f32[T,8] = fill(%loss) {value=1.0}
  backward @layer.0
  %d_w: f32[8,8] !gradient = matmul(%d, %y, _, _, _) {ta=1, tb=0}
  %d_y: f32[T,8] = matmul(%d, %w, _, _, _) {ta=0, tb=0}
  %d_x: f32[T,8] !output, %d_g: f32[8] !gradient = rms_norm_bwd(%d_y, %x, %g, _, %rstd, _, _, _, _) {eps=1e-06, heads=1, second_heads=0}
}
)",
                            find_op);
  const RecomputeChoice cheap{.policy = RecomputePolicy::kCheap};
  PassManager({}).run(graph, recompute_pass(cheap));
  EXPECT_EQ(std::ranges::count(graph.ops(), &rms_norm_op(), &Op::def), 2) << print_graph(graph);
}

// A layer that normalizes its input passes one value to the next block, the sum. The backward pass recomputes the normalized values from
// this sum.
TEST(RecomputePass, FullComputesANormFromTheSumThatPassesToTheNextBlock) {
  const std::string text = R"(graph train {
  input %x: f32[T,8]
  input %r: f32[T,8]
  weight %g: f32[8]
  weight %w: f32[8,8]
  forward @layer.0
  %y: f32[T,8], %n: f32[T,8], %rstd: f32[T], %s: f32[T,8] = bias_dropout_residual_norm(%x, _, %r, %g, _, _) {eps=1e-05, p=0.0, site=0, sum=1}
  forward @layer.1
  %z: f32[T,8] = matmul(%y, %w, _, _, _) {ta=0, tb=1}
  %next: f32[T,8] = add(%s, %z)
  forward @layer.2
  %last: f32[T,8] = tanh(%next)
  forward @head
  %loss: f32[T,8] = tanh(%last)
  backward @head
  %d: f32[T,8] = fill(%loss) {value=1.0}
  backward @layer.1
  %d_w: f32[8,8] !gradient = matmul(%d, %y, _, _, _) {ta=1, tb=0}
  %d_y: f32[T,8] = matmul(%d, %w, _, _, _) {ta=0, tb=0}
  backward @layer.0
  %d_s: f32[T,8] !output, %d_g: f32[8] !gradient = bias_dropout_residual_norm_bwd(%d_y, _, %n, %rstd, %g, _, _, _, _, _, %d) {beta=0, bias=0, p=0.0, residual=1, site=0}
}
)";
  const auto backward = [&](RecomputePolicy policy) {
    Graph graph = parse_graph(text, find_op);
    PassManager({}).run(graph, recompute_pass({.policy = policy}));
    const std::string after = print_graph(graph);
    return after.substr(after.find("backward @"));
  };
  const std::string full = backward(RecomputePolicy::kFull);
  EXPECT_NE(full.find("= normalize(%s) {eps=1e-05}"), std::string::npos) << full;
  EXPECT_NE(full.find("= scale_shift("), std::string::npos) << full;
  EXPECT_EQ(full.find("%n,"), std::string::npos) << full;
  // With the policy kCheap no block runs again: the normalized values are kept, and y is computed from them.
  const std::string cheap = backward(RecomputePolicy::kCheap);
  EXPECT_EQ(cheap.find("normalize("), std::string::npos) << cheap;
  EXPECT_NE(cheap.find("= scale_shift(%n, %g, _)"), std::string::npos) << cheap;
  EXPECT_NE(cheap.find("_bwd(%d_y, _, %n, %rstd"), std::string::npos) << cheap;
}

TEST(RecomputePass, FullKeepsBlockOutputsAndRunsTheRestBeforeItsFirstReader) {
  const std::vector<std::string> lines = backward_after({.policy = RecomputePolicy::kFull});
  const std::vector<std::string> expected{
      "%d_y: f32[T,8] = fill(%y) {value=1.0}",
      "%d_c1: f32[T,8] = tanh_bwd(%y, %d_y)",
      "%a1.again: f32[T,8] = matmul(%c0, %v1, _, _, _) {ta=0, tb=1}",
      "%b1.again: f32[T,8] = tanh(%a1.again)",
      "%d_w1: f32[8,8] !gradient = matmul(%d_c1, %b1.again, _, _, _) {ta=1, tb=0}",
      "%d_b1: f32[T,8] = matmul(%d_c1, %w1, _, _, _) {ta=0, tb=0}",
      "%d_a1: f32[T,8] = tanh_bwd(%b1.again, %d_b1)",
      "%d_v1: f32[8,8] !gradient = matmul(%d_a1, %c0, _, _, _) {ta=1, tb=0}",
      "%d_c0: f32[T,8] = matmul(%d_a1, %v1, _, _, _) {ta=0, tb=0}",
      "%a0.again: f32[T,8] = matmul(%x, %v0, _, _, _) {ta=0, tb=1}",
      "%b0.again: f32[T,8] = tanh(%a0.again)",
      "%d_w0: f32[8,8] !gradient = matmul(%d_c0, %b0.again, _, _, _) {ta=1, tb=0}",
      "%d_b0: f32[T,8] = matmul(%d_c0, %w0, _, _, _) {ta=0, tb=0}",
      "%d_a0: f32[T,8] = tanh_bwd(%b0.again, %d_b0)",
      "%d_v0: f32[8,8] !gradient = matmul(%d_a0, %x, _, _, _) {ta=1, tb=0}"};
  EXPECT_EQ(lines, expected);
}

TEST(RecomputePass, AChoiceNamesTheValuesThatABlockKeeps) {
  RecomputeChoice choice{.policy = RecomputePolicy::kNone, .kept_of_block = {{"layer.0", {}}}};
  EXPECT_EQ(made_again(choice),
            (std::vector<std::string>{"%a0.again: f32[T,8] = matmul(%x, %v0, _, _, _) {ta=0, tb=1}",
                                      "%b0.again: f32[T,8] = tanh(%a0.again)"}));
  choice.kept_of_block = {{"layer.0", {"a0"}}, {"layer.1", {"b1"}}};
  EXPECT_EQ(made_again(choice), (std::vector<std::string>{"%b0.again: f32[T,8] = tanh(%a0)"}));
}

TEST(RecomputePass, RecomputedValuesWaitForTheirBlock) {
  Graph graph = parse_graph(kGraph, find_op);
  PassManager passes({});
  passes.run(graph, recompute_pass({.policy = RecomputePolicy::kFull}));
  passes.run(graph, reorder_pass({.tokens = 64, .sequences = 4, .longest = 16}));
  const auto at = [&](std::string_view name) { return index_of(graph.value(graph.find(name)).producer); };
  EXPECT_GT(at("a0.again"), at("d_c0"));
  EXPECT_GT(at("a1.again"), at("d_c1"));
  const std::vector<bool> repeated = find_repeated_ops(graph);
  for (const char* name : {"a0.again", "b0.again", "a1.again", "b1.again"}) EXPECT_TRUE(repeated[at(name)]);
  EXPECT_EQ(std::count(repeated.begin(), repeated.end(), true), 4);
}

TEST(Blocks, AreNamedUpToTheirFirstNumber) {
  EXPECT_EQ(block_of("encoder.layer.3.attention"), "encoder.layer.3");
  EXPECT_EQ(block_of("transformer.layer.11"), "transformer.layer.11");
  EXPECT_EQ(block_of("h.0.mlp.1"), "h.0");
  EXPECT_EQ(block_of("embeddings"), "");
  EXPECT_EQ(block_of("layer2.x"), "");
  EXPECT_EQ(block_of(""), "");
}

TEST(Blocks, EndWhereAnotherModuleReads) {
  const Graph graph = parse_graph(kGraph, find_op);
  const std::vector<bool> ends = find_block_ends(graph);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const std::string& name = graph.value(graph.ops()[i].outputs[0]).name;
    EXPECT_EQ(ends[i], name == "c0" || name == "c1") << name;
  }
  EXPECT_EQ(last_block_before_head(graph), "") << "the head works on rows of tokens";
}

}  // namespace
}  // namespace plimsoll
