#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "graph/passes/testing/pass_text.h"
#include "graph/passes/testing/update_text.h"

namespace plimsoll {
namespace {

// Attention with two heads of two columns, and a feed-forward layer of six columns. The matrix products of the module "head" are not
// divided.
constexpr const char* kLayer = R"(graph g {
  input %x: f32[T,4]
  input %cu: i32[B+1]
  weight %w: f32[12,4]
  weight %b: f32[12]
  weight %v: f32[4,4]
  weight %c: f32[4]
  weight %up: f32[12,4]
  weight %down: f32[4,6]
  weight %dense: f32[4,4]
  weight %out: f32[3,4]
  forward @h.0.attention
  %p: f32[T,12] = matmul(%x, %w, _, _, _) {ta=0, tb=1}
  %qkv: f32[T,12] = bias_add(%p, %b)
  %o: f32[T,4], %lse: f32[T,2] = attention(%qkv, %cu, _) {causal=0, heads=2, lse=1, p=0.0, scale=0.5, site=0}
  %y: f32[T,4] = matmul(%o, %v, _, _, _) {ta=0, tb=1}
  %z: f32[T,4] = bias_add(%y, %c)
  forward @h.0.feed_forward
  %u: f32[T,12] = matmul(%z, %up, _, _, _) {ta=0, tb=1}
  %g: f32[T,6] = glu(%u) {activation="silu"}
  %d: f32[T,4] = matmul(%g, %down, _, _, _) {ta=0, tb=1}
  forward @head
  %h: f32[T,4] = matmul(%d, %dense, _, _, _) {ta=0, tb=1}
  %a: f32[T,4] = gelu(%h)
  %logits: f32[T,3] !output = matmul(%a, %out, _, _, _) {ta=0, tb=1}
}
)";

TEST(TensorParallel, DividesHeadsAndColumns) {
  EXPECT_EQ(print_graph(testing::after_pass(kLayer, tensor_parallel_pass(2, DividedHeads::kYes))),
            R"(graph g {
  input %x: f32[T,4]
  input %cu: i32[B+1]
  weight %w: f32[6,4] !split=2/16+16+16/12x4
  weight %b: f32[6] !split=2/4+4+4/12
  weight %v: f32[4,2] !split=2/4/4x4
  weight %c: f32[4]
  weight %up: f32[6,4] !split=2/24+24/12x4
  weight %down: f32[4,3] !split=2/6/4x6
  weight %dense: f32[4,4]
  weight %out: f32[3,4]
  forward @h.0.attention
  %p: f32[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1, tensor_ranks=2}
  %qkv: f32[T,6] = bias_add(%p, %b)
  %o: f32[T,2], %lse: f32[T,1] = attention(%qkv, %cu, _) {causal=0, heads=1, lse=1, p=0.0, scale=0.5, site=0, tensor_ranks=2}
  %y: f32[T,4] = matmul(%o, %v, _, _, _) {ta=0, tb=1}
  %y.sum: f32[T,4] into %y = all_reduce(%y) {axis="tensor", ranks=2}
  %z: f32[T,4] = bias_add(%y.sum, %c)
  forward @h.0.feed_forward
  %u: f32[T,6] = matmul(%z, %up, _, _, _) {ta=0, tb=1, tensor_ranks=2}
  %g: f32[T,3] = glu(%u) {activation="silu"}
  %d: f32[T,4] = matmul(%g, %down, _, _, _) {ta=0, tb=1}
  %d.sum: f32[T,4] into %d = all_reduce(%d) {axis="tensor", ranks=2}
  forward @head
  %h: f32[T,4] = matmul(%d.sum, %dense, _, _, _) {ta=0, tb=1}
  %a: f32[T,4] = gelu(%h)
  %logits: f32[T,3] !output = matmul(%a, %out, _, _, _) {ta=0, tb=1}
}
)");
}

// A language model whose head reads the word table, which has 37 rows. On two ranks, each stores 24 rows: 37 / 2 rounded up to a multiple
// of 8.
constexpr const char* kLanguageModel = R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T]
  input %positions: i32[T]
  weight %words: f32[37,4]
  weight %places: f32[8,4]
  input %labels: i32[T]
  input %denominator: f32[1]
  weight %bias: f32[37]
  forward @embeddings
  %x: f32[T,4] = embedding_sum(%cu, %ids, %words, %positions, %places) {padding_id=-1}
  forward @head
  %z: f32[T,37] = matmul(%x, %words, _, _, _) {ta=0, tb=1}
  %logits: f32[T,37] = bias_add(%z, %bias)
  forward @loss
  %log_p: f32[T,37] = log_softmax(%logits)
  %loss: f32[1] !output = nll(%log_p, %labels, %denominator) {smoothing=0.1}
  %correct: i32[1] !output = count_correct(%logits, %labels)
}
)";

TEST(TensorParallel, DividesTheVocabulary) {
  EXPECT_EQ(print_graph(testing::after_pass(kLanguageModel, tensor_parallel_pass(2, DividedHeads::kYes))),
            R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T]
  input %positions: i32[T]
  weight %words: f32[24,4] !split=2/192/37x4
  weight %places: f32[8,4]
  input %labels: i32[T]
  input %denominator: f32[1]
  weight %bias: f32[24] !split=2/48/37
  forward @embeddings
  %x: f32[T,4] = embedding_sum(%cu, %ids, %words, %positions, %places) {padding_id=-1, tensor_ranks=2}
  %x.sum: f32[T,4] into %x = all_reduce(%x) {axis="tensor", ranks=2}
  forward @head
  %z: f32[T,24] = matmul(%x.sum, %words, _, _, _) {ta=0, tb=1, tensor_ranks=2}
  %logits: f32[T,24] = bias_add(%z, %bias)
  forward @loss
  %class_sums: f32[T,7] = class_sums(%logits, %labels) {classes=37, counts_correct=1, smoothing=0.1, tensor_ranks=2}
  %class_sums.sum: f32[T,7] into %class_sums = all_reduce(%class_sums) {axis="tensor", ranks=2}
  %loss: f32[1] !output, %correct: i32[1] !output = class_sums_loss(%class_sums.sum, %labels, %denominator) {classes=37, counts_correct=1, rank_classes=24, smoothing=0.1, tensor_ranks=2}
}
)");
}

TEST(TensorParallel, KeepsTheZLoss) {
  std::string text = testing::replaced(kLanguageModel, "  %log_p: f32[T,37] = log_softmax(%logits)\n", "");
  text = testing::replaced(
      text, "%loss: f32[1] !output = nll(%log_p, %labels, %denominator) {smoothing=0.1}",
      "%loss: f32[1] !output, %z_loss: f32[1] !output = softmax_cross_entropy(%logits, %labels, "
      "%denominator) {smoothing=0.0, z_loss=0.01}");
  text = testing::replaced(text, "  %correct: i32[1] !output = count_correct(%logits, %labels)\n", "");
  const std::string divided =
      print_graph(testing::after_pass(text, tensor_parallel_pass(2, DividedHeads::kYes)));
  EXPECT_NE(divided.find("%loss: f32[1] !output, %z_loss: f32[1] !output = class_sums_loss("),
            std::string::npos)
      << divided;
}

// A word table that an undivided head reads is not divided. One that only the embedding lookup reads is divided.
TEST(TensorParallel, KeepsHeadsWhole) {
  EXPECT_EQ(print_graph(testing::after_pass(kLanguageModel, tensor_parallel_pass(2, DividedHeads::kNo))),
            testing::unchanged(kLanguageModel));
  const std::string read =
      testing::replaced(kLanguageModel, "%logits: f32[T,37]", "%logits: f32[T,37] !output");
  EXPECT_EQ(print_graph(testing::after_pass(read, tensor_parallel_pass(2, DividedHeads::kYes))),
            testing::unchanged(read));
  std::string untied = testing::replaced(kLanguageModel, "matmul(%x, %words,", "matmul(%x, %own,");
  untied = testing::replaced(untied, "  weight %places", "  weight %own: f32[37,4]\n  weight %places");
  const std::string divided =
      print_graph(testing::after_pass(untied, tensor_parallel_pass(2, DividedHeads::kNo)));
  EXPECT_NE(divided.find("weight %words: f32[24,4]"), std::string::npos) << divided;
  EXPECT_NE(divided.find("weight %own: f32[37,4]\n"), std::string::npos) << divided;
}

TEST(TensorParallel, DividesNothingForOneRank) {
  EXPECT_EQ(print_graph(testing::after_pass(kLayer, tensor_parallel_pass(1, DividedHeads::kYes))),
            testing::unchanged(kLayer));
}

// Each rank has only some columns of the value between the two matrix products. Its dropout must draw the same random numbers for these
// columns as a single rank that has all columns.
TEST(TensorParallel, NumbersTheColumnsOfAllRanks) {
  std::string text = testing::replaced(kLayer, "  input %cu", "  input %rng: i64[2]\n  input %cu");
  text = testing::replaced(text, "  %d: f32[T,4] = matmul(%g,",
                           "  %e: f32[T,6] = dropout(%g, %rng) {p=0.1, site=1}\n  %d: f32[T,4] = matmul(%e,");
  const std::string divided =
      print_graph(testing::after_pass(text, tensor_parallel_pass(2, DividedHeads::kYes)));
  EXPECT_NE(divided.find("  %e: f32[T,3] = dropout(%g, %rng) {p=0.1, site=1, tensor_ranks=2}\n"
                         "  %d: f32[T,4] = matmul(%e, %down, _, _, _) {ta=0, tb=1}\n"
                         "  %d.sum: f32[T,4] into %d = all_reduce(%d)"),
            std::string::npos)
      << divided;
}

// The layer has three LoRA adapters. They adapt the part v of a fused weight of q, k and v; the whole fused weight; and a weight whose
// columns the ranks divide.
TEST(TensorParallel, DividesAdapters) {
  std::string text = testing::replaced(
      kLayer, "  weight %v:",
      "  weight %va: f32[2,4]\n  weight %vb: f32[4,2]\n  weight %wa: f32[2,4]\n  weight %wb: f32[12,2]\n"
      "  weight %oa: f32[2,4]\n  weight %ob: f32[4,2]\n  weight %v:");
  text = testing::replaced(text, "  %qkv: f32[T,12] = bias_add(%p, %b)\n",
                           R"(  %q: f32[T,12] = bias_add(%p, %b)
  %v.low: f32[T,2] = matmul(%x, %va, _, _, _) {ta=0, tb=1}
  %v.delta: f32[T,4] = matmul(%v.low, %vb, _, _, _) {ta=0, tb=1}
  %r: f32[T,12] = add_columns(%q, %v.delta) {first=8}
  %w.low: f32[T,2] = matmul(%x, %wa, _, _, _) {ta=0, tb=1}
  %w.delta: f32[T,12] = matmul(%w.low, %wb, _, _, _) {ta=0, tb=1}
  %qkv: f32[T,12] = add(%r, %w.delta)
)");
  text = testing::replaced(text, "  %z: f32[T,4] = bias_add(%y, %c)\n",
                           R"(  %s: f32[T,4] = bias_add(%y, %c)
  %o.low: f32[T,2] = matmul(%o, %oa, _, _, _) {ta=0, tb=1}
  %o.delta: f32[T,4] = matmul(%o.low, %ob, _, _, _) {ta=0, tb=1}
  %z: f32[T,4] = add(%s, %o.delta)
)");
  const std::string divided =
      print_graph(testing::after_pass(text, tensor_parallel_pass(2, DividedHeads::kYes)));
  EXPECT_NE(divided.find(R"(  weight %va: f32[2,4]
  weight %vb: f32[2,2] !split=2/8/4x2
  weight %wa: f32[2,4]
  weight %wb: f32[6,2] !split=2/8+8+8/12x2
  weight %oa: f32[2,2] !split=2/4/2x4
  weight %ob: f32[4,2]
)"),
            std::string::npos)
      << divided;
  EXPECT_NE(divided.find(R"(  %q: f32[T,6] = bias_add(%p, %b)
  %v.low: f32[T,2] = matmul(%x, %va, _, _, _) {ta=0, tb=1}
  %v.delta: f32[T,2] = matmul(%v.low, %vb, _, _, _) {ta=0, tb=1, tensor_ranks=2}
  %r: f32[T,6] = add_columns(%q, %v.delta) {first=4}
  %w.low: f32[T,2] = matmul(%x, %wa, _, _, _) {ta=0, tb=1}
  %w.delta: f32[T,6] = matmul(%w.low, %wb, _, _, _) {ta=0, tb=1, tensor_ranks=2}
  %qkv: f32[T,6] = add(%r, %w.delta)
)"),
            std::string::npos)
      << divided;
  EXPECT_NE(divided.find(R"(  %y.sum: f32[T,4] into %y = all_reduce(%y) {axis="tensor", ranks=2}
  %s: f32[T,4] = bias_add(%y.sum, %c)
  %o.low: f32[T,2] = matmul(%o, %oa, _, _, _) {ta=0, tb=1}
  %o.low.sum: f32[T,2] into %o.low = all_reduce(%o.low) {axis="tensor", ranks=2}
  %o.delta: f32[T,4] = matmul(%o.low.sum, %ob, _, _, _) {ta=0, tb=1}
  %z: f32[T,4] = add(%s, %o.delta)
)"),
            std::string::npos)
      << divided;
}

// The gradient and the state of a divided weight are divided in the same way as the weight. Each rank computes the norm from its part of
// this gradient and from a slice of the gradient that is not divided. The update does not change.
TEST(TensorStates, DivideStatesAndTheNorm) {
  const auto divided = [](std::string text, const std::string& value) {
    return testing::replaced(std::move(text), value, value + " !split=2/512/4x512");
  };
  const std::string before = divided(testing::kUpdateOfTwoRanks, "weight %w: f32[4,256]");
  std::string expected = divided(before, "state %m/w: f32[4,256]");
  expected = divided(std::move(expected), "%d_w: f32[4,256] !gradient");
  expected = divided(std::move(expected), "%d_w.sum: f32[4,256] into %d_w !gradient");
  const size_t norm = expected.find("  %norm: "), update = expected.find("  %w.updated: ");
  expected.replace(
      norm, update - norm,
      R"(  %norm.of_ranks: f32[2], %finite.of_ranks: f32[1], %bad: i64[2] !output = global_norm(%d_w.sum, %d_b.sum) {axis="tensor", names_bad=1, ranks=2}
  %norm.of_ranks.gathered: f32[2] into %norm.of_ranks, %bad.gathered: i64[2] into %bad !output = all_gather(%norm.of_ranks, %bad) {axis="tensor", block=1, ranks=2}
  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%norm.of_ranks.gathered, %loss) {with_loss=1}
)");
  EXPECT_EQ(print_graph(testing::after_pass(before, tensor_states_pass(2))), expected);
}

// Data-parallel ranks divide the states, and two tensor-parallel ranks divide the weight. Each rank then computes a norm from its slice of
// its part of the weight's gradient, and from one half of its slice of the undivided bias's gradient. The norms are combined over the
// data-parallel ranks first, and then over the tensor-parallel ranks.
TEST(TensorStates, JoinTheNormsOfSlices) {
  const std::string before = testing::replaced(testing::kUpdateOfTwoRanks, "weight %w: f32[4,256]",
                                               "weight %w: f32[4,256] !split=2/512/4x512");
  Graph graph = parse_graph(before, find_op);
  shard_states_pass({.num_ranks = 2}).run(graph);
  tensor_states_pass(2).run(graph);
  verify(graph, "after the passes");
  const std::string printed = print_graph(graph);
  const auto has = [&](const std::string& line) {
    EXPECT_NE(printed.find(line), std::string::npos) << line << "\n" << printed;
  };
  has("state %m/w: f32[4,256] !divided=2 !split=2/512/4x512\n");
  has("state %m/b: f32[256] !divided=2\n");
  const size_t norm = printed.find("  %norm.of_ranks: "), update = printed.find("  %w.updated: ");
  EXPECT_EQ(
      printed.substr(norm, update - norm),
      R"(  %norm.of_ranks: f32[2], %finite.of_ranks: f32[1], %bad: i64[2] !output = global_norm(%d_w.sum, %d_b.sum) {names_bad=1, ranks=2, tensor_ranks=2}
  %norm.of_ranks.gathered: f32[2] into %norm.of_ranks, %bad.gathered: i64[2] into %bad !output = all_gather(%norm.of_ranks, %bad) {block=1, ranks=2}
  %norm.of_part: f32[1] !split=2/2/2, %finite.of_part: f32[1] = global_norm(%norm.of_ranks.gathered)
  %norm.of_ranks.1: f32[2], %finite.of_ranks.1: f32[1] = global_norm(%norm.of_part) {axis="tensor", ranks=2}
  %norm.of_ranks.1.gathered: f32[2] into %norm.of_ranks.1 = all_gather(%norm.of_ranks.1) {axis="tensor", block=1, ranks=2}
  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%norm.of_ranks.1.gathered, %loss) {with_loss=1}
)");
}

}  // namespace
}  // namespace plimsoll
