#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

// Two heads of two columns, and a feed-forward layer of six columns. The same layers in a head stay whole.
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
  EXPECT_EQ(print_graph(testing::after_pass(kLayer, tensor_parallel_pass(2))), R"(graph g {
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

TEST(TensorParallel, DividesNothingForOneRank) {
  EXPECT_EQ(print_graph(testing::after_pass(kLayer, tensor_parallel_pass(1))), testing::unchanged(kLayer));
}

// A gradient between the products would need the random numbers of the columns of all ranks.
TEST(TensorParallel, RefusesDropoutBetweenTheProducts) {
  std::string text = testing::replaced(kLayer, "  input %cu", "  input %rng: i64[2]\n  input %cu");
  text = testing::replaced(text, "  %d: f32[T,4] = matmul(%g,",
                           "  %e: f32[T,6] = dropout(%g, %rng) {p=0.1, site=1}\n  %d: f32[T,4] = matmul(%e,");
  try {
    testing::after_pass(text, tensor_parallel_pass(2));
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_TRUE(std::string(error.what()).starts_with("--tp_size 2: the model draws dropout"))
        << error.what();
  }
}

// The gradient and the state of a divided weight are divided like it, and each rank adds its part and a slice of the whole gradient
// to the norm.
TEST(TensorStates, DivideStatesAndTheNorm) {
  const std::string before = R"(graph g {
  input %x: f32[B,4]
  input %y: f32[B,2]
  input %learning_rate: f64[1]
  input %step: i64[1]
  input %loss: f32[1]
  weight %w: f32[4,2] !split=2/4/4x4
  weight %b: f32[2]
  state %m/w: f32[4,2]
  state %m/b: f32[2]
  backward @m
  %d_w: f32[4,2] !gradient = matmul(%x, %y, _, _, _) {ta=1, tb=0}
  %d_b: f32[2] !gradient = bias_grad(%y, _, _)
  %d_w.sum: f32[4,2] into %d_w !gradient, %d_b.sum: f32[2] into %d_b !gradient = all_reduce(%d_w, %d_b) {ranks=2}
  optimizer @
  %norm: f32[1] !output, %finite: f32[1] !output, %bad: i64[1] !output = global_norm(%d_w.sum, %d_b.sum, %loss) {names_bad=1, with_loss=1}
  %w.updated: f32[4,2] into %w, %m.updated/w: f32[4,2] into %m/w, %b.updated: f32[2] into %b, %m.updated/b: f32[2] into %m/b = sgd(%learning_rate, %step, _, %finite, %w, %d_w.sum, %m/w, %b, %d_b.sum, %m/b) {copies=0, momentum=0.9, nesterov=0, weight_decay=0.0}
}
)";
  EXPECT_EQ(print_graph(testing::after_pass(before, tensor_states_pass(2))), R"(graph g {
  input %x: f32[B,4]
  input %y: f32[B,2]
  input %learning_rate: f64[1]
  input %step: i64[1]
  input %loss: f32[1]
  weight %w: f32[4,2] !split=2/4/4x4
  weight %b: f32[2]
  state %m/w: f32[4,2] !split=2/4/4x4
  state %m/b: f32[2]
  backward @m
  %d_w: f32[4,2] !gradient !split=2/4/4x4 = matmul(%x, %y, _, _, _) {ta=1, tb=0}
  %d_b: f32[2] !gradient = bias_grad(%y, _, _)
  %d_w.sum: f32[4,2] into %d_w !gradient !split=2/4/4x4, %d_b.sum: f32[2] into %d_b !gradient = all_reduce(%d_w, %d_b) {ranks=2}
  optimizer @
  %norm.of_ranks: f32[2], %finite.of_ranks: f32[1], %bad: i64[2] !output = global_norm(%d_w.sum, %d_b.sum) {axis="tensor", names_bad=1, ranks=2}
  %norm.of_ranks.gathered: f32[2] into %norm.of_ranks, %bad.gathered: i64[2] into %bad !output = all_gather(%norm.of_ranks, %bad) {axis="tensor", block=1, ranks=2}
  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%norm.of_ranks.gathered, %loss) {with_loss=1}
  %w.updated: f32[4,2] into %w, %m.updated/w: f32[4,2] into %m/w, %b.updated: f32[2] into %b, %m.updated/b: f32[2] into %m/b = sgd(%learning_rate, %step, _, %finite, %w, %d_w.sum, %m/w, %b, %d_b.sum, %m/b) {copies=0, momentum=0.9, nesterov=0, weight_decay=0.0}
}
)");
}

}  // namespace
}  // namespace plimsoll
