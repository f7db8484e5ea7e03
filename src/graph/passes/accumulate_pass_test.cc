#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

std::string after(const std::string& text) {
  return print_graph(testing::after_pass(text, accumulate_pass()));
}

TEST(Accumulate, AProductAddsIntoTheBuffer) {
  EXPECT_EQ(after("graph g {\n"
                  "  input %d: f32[B,3]\n"
                  "  input %x: f32[B,4]\n"
                  "  input %accumulate: i32[1]\n"
                  "  backward @m\n"
                  "  %d_w: f32[3,4] !gradient = matmul(%d, %x, _, _, _) {ta=1, tb=0}\n"
                  "}\n"),
            "graph g {\n"
            "  input %d: f32[B,3]\n"
            "  input %x: f32[B,4]\n"
            "  input %accumulate: i32[1]\n"
            "  gradient %gradient/d_w: f32[3,4]\n"
            "  backward @m\n"
            "  %d_w: f32[3,4] into %gradient/d_w !gradient = "
            "matmul(%d, %x, _, %gradient/d_w, %accumulate) {ta=1, tb=0}\n"
            "}\n");
}

// If an op cannot add to its output, the pass inserts an accumulate op after it. Ops that read the gradient then read the accumulated sum.
TEST(Accumulate, AnAccumulateOpFollowsAnOpThatCannotAdd) {
  EXPECT_EQ(after("graph g {\n"
                  "  input %a: f32[3,4]\n"
                  "  input %accumulate: i32[1]\n"
                  "  backward @m\n"
                  "  %d_w: f32[3,4] !gradient = gelu(%a)\n"
                  "  %y: f32[3,4] !output = tanh(%d_w)\n"
                  "}\n"),
            "graph g {\n"
            "  input %a: f32[3,4]\n"
            "  input %accumulate: i32[1]\n"
            "  gradient %gradient/d_w: f32[3,4]\n"
            "  backward @m\n"
            "  %d_w: f32[3,4] = gelu(%a)\n"
            "  %d_w.1: f32[3,4] into %gradient/d_w !gradient = "
            "accumulate(%gradient/d_w, %accumulate, %d_w)\n"
            "  %y: f32[3,4] !output = tanh(%d_w.1)\n"
            "}\n");
}

// An op adds to all of its outputs or overwrites all of them, because it has one flag. In the test, one op computes the gradient of a tied
// table and that of a bias. A later op adds another gradient of the table to the first one, which must therefore contain one micro-batch
// only. So the op cannot accumulate the gradient of the bias either.
TEST(Accumulate, AnOpAddsToAllOfItsOutputsOrToNone) {
  EXPECT_EQ(
      after(
          "graph g {\n"
          "  input %x: f32[B,4]\n"
          "  input %w: f32[3,4]\n"
          "  input %bias: f32[3]\n"
          "  input %labels: i32[B]\n"
          "  input %n: f32[1]\n"
          "  input %other: f32[3,4]\n"
          "  input %accumulate: i32[1]\n"
          "  backward @m\n"
          "  %d_head: f32[3,4], %d_bias: f32[3] !gradient = "
          "linear_cross_entropy_grad(%x, %w, %bias, %labels, %n, %n, _, _, _) {chunk_rows=2, smoothing=0.0}\n"
          "  %d_w: f32[3,4] !gradient = add(%d_head, %other)\n"
          "}\n"),
      "graph g {\n"
      "  input %x: f32[B,4]\n"
      "  input %w: f32[3,4]\n"
      "  input %bias: f32[3]\n"
      "  input %labels: i32[B]\n"
      "  input %n: f32[1]\n"
      "  input %other: f32[3,4]\n"
      "  input %accumulate: i32[1]\n"
      "  gradient %gradient/d_bias: f32[3]\n"
      "  gradient %gradient/d_w: f32[3,4]\n"
      "  backward @m\n"
      "  %d_head: f32[3,4], %d_bias: f32[3] = "
      "linear_cross_entropy_grad(%x, %w, %bias, %labels, %n, %n, _, _, _) {chunk_rows=2, smoothing=0.0}\n"
      "  %d_bias.1: f32[3] into %gradient/d_bias !gradient = accumulate(%gradient/d_bias, %accumulate, "
      "%d_bias)\n"
      "  %d_w: f32[3,4] = add(%d_head, %other)\n"
      "  %d_w.1: f32[3,4] into %gradient/d_w !gradient = accumulate(%gradient/d_w, %accumulate, %d_w)\n"
      "}\n");
}

}  // namespace
}  // namespace plimsoll
