#include <gtest/gtest.h>

#include <map>
#include <string>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

std::string after(const std::string& text, std::map<std::string, RankSlices> divided = {}) {
  return print_graph(testing::after_pass(text, gather_weights_pass(std::move(divided))));
}

// The weights of a block are gathered when the block before it begins. The backward pass reads the weights of the last two blocks, which
// still exist, and gathers all other weights again.
TEST(GatherWeights, GathersTheWeightsOfABlockAhead) {
  EXPECT_EQ(after(R"(graph g {
  input %x: f32[T,4]
  weight %a: f32[4,4] !divided=2
  weight %b: f32[4,4] !divided=2
  weight %c: f32[4,4] !divided=2
  weight %d: f32[4,4] !divided=2
  weight %bias: f32[4]
  forward @layer.0
  %x0: f32[T,4] = matmul(%x, %a, %bias, _, _) {ta=0, tb=0}
  forward @layer.1
  %x1: f32[T,4] = matmul(%x0, %b, _, _, _) {ta=0, tb=0}
  forward @layer.2.first
  %x2: f32[T,4] = matmul(%x1, %c, _, _, _) {ta=0, tb=0}
  forward @layer.2.second
  %y: f32[T,4] = matmul(%x2, %d, _, _, _) {ta=0, tb=0}
  backward @layer.2.second
  %d_x2: f32[T,4] = matmul(%y, %d, _, _, _) {ta=0, tb=1}
  backward @layer.2.first
  %d_x1: f32[T,4] = matmul(%d_x2, %c, _, _, _) {ta=0, tb=1}
  backward @layer.1
  %d_x0: f32[T,4] = matmul(%d_x1, %b, _, _, _) {ta=0, tb=1}
  backward @layer.0
  %d_x: f32[T,4] !output = matmul(%d_x0, %a, _, _, _) {ta=0, tb=1}
}
)"),
            R"(graph g {
  input %x: f32[T,4]
  weight %a: f32[4,4] !divided=2
  weight %b: f32[4,4] !divided=2
  weight %c: f32[4,4] !divided=2
  weight %d: f32[4,4] !divided=2
  weight %bias: f32[4]
  forward @layer.0
  %a.gathered: f32[4,4] = all_gather(%a) {ranks=2}
  forward @layer.1
  %b.gathered: f32[4,4] = all_gather(%b) {ranks=2}
  forward @layer.0
  %x0: f32[T,4] = matmul(%x, %a.gathered, %bias, _, _) {ta=0, tb=0}
  forward @layer.2.first
  %c.gathered: f32[4,4], %d.gathered: f32[4,4] = all_gather(%c, %d) {ranks=2}
  forward @layer.1
  %x1: f32[T,4] = matmul(%x0, %b.gathered, _, _, _) {ta=0, tb=0}
  forward @layer.2.first
  %x2: f32[T,4] = matmul(%x1, %c.gathered, _, _, _) {ta=0, tb=0}
  forward @layer.2.second
  %y: f32[T,4] = matmul(%x2, %d.gathered, _, _, _) {ta=0, tb=0}
  backward @layer.2.second
  %d_x2: f32[T,4] = matmul(%y, %d.gathered, _, _, _) {ta=0, tb=1}
  backward @layer.2.first
  %d_x1: f32[T,4] = matmul(%d_x2, %c.gathered, _, _, _) {ta=0, tb=1}
  backward @layer.0
  %a.gathered.1: f32[4,4] = all_gather(%a) {ranks=2}
  backward @layer.1
  %d_x0: f32[T,4] = matmul(%d_x1, %b.gathered, _, _, _) {ta=0, tb=1}
  backward @layer.0
  %d_x: f32[T,4] !output = matmul(%d_x0, %a.gathered.1, _, _, _) {ta=0, tb=1}
}
)");
}

// With GatheredWeights::kKeptForBackward each weight is gathered once, and the backward pass reads the gathered weight.
TEST(GatherWeights, KeepsWeightsForTheBackwardPass) {
  const std::string text =
      print_graph(testing::after_pass(R"(graph g {
  input %x: f32[T,4]
  weight %a: f32[4,4] !divided=2
  weight %b: f32[4,4] !divided=2
  weight %c: f32[4,4] !divided=2
  forward @layer.0
  %x0: f32[T,4] = matmul(%x, %a, _, _, _) {ta=0, tb=0}
  forward @layer.1
  %x1: f32[T,4] = matmul(%x0, %b, _, _, _) {ta=0, tb=0}
  forward @layer.2
  %x2: f32[T,4] = matmul(%x1, %c, _, _, _) {ta=0, tb=0}
  backward @layer.2
  %d_x1: f32[T,4] = matmul(%x2, %c, _, _, _) {ta=0, tb=1}
  backward @layer.1
  %d_x0: f32[T,4] = matmul(%d_x1, %b, _, _, _) {ta=0, tb=1}
  backward @layer.0
  %d_x: f32[T,4] !output = matmul(%d_x0, %a, _, _, _) {ta=0, tb=1}
}
)",
                                      gather_weights_pass({}, GatheredWeights::kKeptForBackward)));
  EXPECT_EQ(text.find("gathered.1"), std::string::npos) << text;
  EXPECT_NE(text.find("%d_x: f32[T,4] !output = matmul(%d_x0, %a.gathered, _, _, _)"), std::string::npos)
      << text;
}

// An evaluation program, which updates no weights, divides the same weights among the ranks as the training program.
TEST(GatherWeights, DividesTheWeightsOfOtherPrograms) {
  const std::string text = after(R"(graph g {
  input %x: f32[T,4]
  weight %a: f32[4,4]
  forward @m
  %y: f32[T,4] !output = matmul(%x, %a, _, _, _) {ta=0, tb=0}
}
)",
                                 {{"a", {.ranks = 3}}, {"no_such_weight", {.ranks = 3}}});
  EXPECT_NE(text.find("  weight %a: f32[4,4] !divided=3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("%y: f32[T,4] !output = matmul(%x, %a.gathered, _, _, _)"), std::string::npos) << text;
}

}  // namespace
}  // namespace plimsoll
