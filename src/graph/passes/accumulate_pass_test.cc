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

// An accumulate op follows an op that can only overwrite its result; readers of the gradient read the sum.
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

}  // namespace
}  // namespace plimsoll
