#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"
#include "graph/passes/testing/update_text.h"

namespace plimsoll {
namespace {

std::string after(const std::string& text, const ShardOptions& options = {.num_ranks = 2}) {
  return print_graph(testing::after_pass(text, shard_states_pass(options)));
}

// Slices consist of blocks of 256 elements. Each of the two ranks has two of the four blocks of the weight. The only block of the bias
// belongs to rank 0.
TEST(ShardStates, EachRankUpdatesItsSlices) {
  EXPECT_EQ(after(testing::kUpdateOfTwoRanks), R"(graph g {
  input %x: f32[B,4]
  input %y: f32[B,256]
  input %learning_rate: f64[1]
  input %step: i64[1]
  input %loss: f32[1]
  weight %w: f32[4,256]
  weight %b: f32[256]
  state %m/w: f32[4,256] !divided=2
  state %m/b: f32[256] !divided=2
  backward @m
  %d_w: f32[4,256] !gradient = matmul(%x, %y, _, _, _) {ta=1, tb=0}
  %d_b: f32[256] !gradient = bias_grad(%y, _, _)
  %d_w.sum: f32[4,256] into %d_w !gradient, %d_b.sum: f32[256] into %d_b !gradient = reduce_scatter(%d_w, %d_b) {ranks=2}
  optimizer @
  %norm.of_ranks: f32[2], %finite.of_ranks: f32[1], %bad: i64[2] !output = global_norm(%d_w.sum, %d_b.sum) {names_bad=1, ranks=2}
  %norm.of_ranks.gathered: f32[2] into %norm.of_ranks, %bad.gathered: i64[2] into %bad !output = all_gather(%norm.of_ranks, %bad) {block=1, ranks=2}
  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%norm.of_ranks.gathered, %loss) {with_loss=1}
  %w.updated: f32[4,256] into %w, %m.updated/w: f32[4,256] into %m/w !divided=2, %b.updated: f32[256] into %b, %m.updated/b: f32[256] into %m/b !divided=2 = sgd(%learning_rate, %step, _, %finite, %w, %d_w.sum, %m/w, %b, %d_b.sum, %m/b) {copies=0, momentum=0.9, nesterov=0, ranks=2, weight_decay=0.0}
  %w.updated.gathered: f32[4,256] into %w.updated, %b.updated.gathered: f32[256] into %b.updated = all_gather(%w.updated, %b.updated) {ranks=2}
}
)");
}

// all_on_first: all sums of gradients, all states and all updates are on the first rank, which then sends the weights. In the text of the
// graph, the block size 2^40 (kAllOnFirstRank) means this.
TEST(ShardStates, TheFirstRankMakesAllUpdates) {
  const std::string text = after(testing::kUpdateOfTwoRanks, {.num_ranks = 2, .all_on_first = true});
  const auto has = [&](std::string_view line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  };
  has("= reduce_scatter(%d_w, %d_b) {block=1099511627776, ranks=2}");
  has("= global_norm(%d_w.sum, %d_b.sum) {block=1099511627776, names_bad=1, ranks=2}");
  has("= all_gather(%norm.of_ranks, %bad) {block=1, ranks=2}");
  has("{block=1099511627776, copies=0, momentum=0.9, nesterov=0, ranks=2, weight_decay=0.0}");
  has("= all_gather(%w.updated, %b.updated) {block=1099511627776, ranks=2}");
}

// ZeRO stage 2 stores only slices of the summed gradients, which the norm and the update read.
TEST(ShardStates, EachRankKeepsItsSlicesOfTheGradients) {
  const std::string text = after(testing::kUpdateOfTwoRanks, {.num_ranks = 2, .gradients = true});
  const auto has = [&](std::string_view line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  };
  has("  %d_w: f32[4,256] = matmul(");
  has("  %d_w.sum: f32[4,256] into %d_w, %d_b.sum: f32[256] into %d_b = reduce_scatter(%d_w, %d_b) "
      "{ranks=2}\n"
      "  %d_w.sum.slice: f32[4,256] !gradient !divided=2 = accumulate(_, _, %d_w.sum) {ranks=2}\n"
      "  %d_b.sum.slice: f32[256] !gradient !divided=2 = accumulate(_, _, %d_b.sum) {ranks=2}\n"
      "  optimizer @\n");
  has("= global_norm(%d_w.sum.slice, %d_b.sum.slice) {names_bad=1, ranks=2}");
  has("= sgd(%learning_rate, %step, _, %finite, %w, %d_w.sum.slice, %m/w, %b, %d_b.sum.slice, %m/b)");
  has("= all_gather(%w.updated, %b.updated) {ranks=2}");
}

// With accumulation the slices are persistent, and the slices of all micro-batches are added up.
TEST(ShardStates, SlicesOfGradientsAccumulate) {
  const std::string text = after(testing::replaced(testing::kUpdateOfTwoRanks, "  input %loss",
                                                   "  input %accumulate: i32[1]\n  input %loss"),
                                 {.num_ranks = 2, .gradients = true, .accumulates = true});
  EXPECT_NE(text.find("  gradient %gradient/d_w.sum: f32[4,256] !divided=2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  %d_w.sum.slice: f32[4,256] into %gradient/d_w.sum !gradient !divided=2 = "
                      "accumulate(%gradient/d_w.sum, %accumulate, %d_w.sum) {ranks=2}\n"),
            std::string::npos)
      << text;
}

// Stage 3 divides the weight, and the bias, which is smaller than the threshold, stays whole.
TEST(ShardStates, EachRankKeepsItsSlicesOfLargeWeights) {
  const std::string text =
      after(testing::kUpdateOfTwoRanks, {.num_ranks = 2, .gradients = true, .least_divided_elements = 1000});
  EXPECT_NE(text.find("  weight %w: f32[4,256] !divided=2\n  weight %b: f32[256]\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("%w.updated: f32[4,256] into %w !divided=2, "), std::string::npos) << text;
  EXPECT_NE(text.find("= all_gather(%b.updated) {ranks=2}"), std::string::npos) << text;
}

// A gradient that another op reads is summed as a whole, and the states of its parameter stay whole.
TEST(ShardStates, AGradientThatOtherOpsReadIsNotDivided) {
  const std::string text = testing::replaced(testing::kUpdateOfTwoRanks, "  optimizer @\n",
                                             "  optimizer @\n  %copy: f32[4,256] !output = gelu(%d_w.sum)\n");
  EXPECT_EQ(after(text), testing::unchanged(text));
}

TEST(ShardStates, AGraphWithoutUpdatesIsUnchanged) {
  EXPECT_EQ(after(testing::kSharedWeight), testing::unchanged(testing::kSharedWeight));
}

}  // namespace
}  // namespace plimsoll
