#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

std::string after(const std::string& text, int64_t bucket_bytes) {
  return print_graph(testing::after_pass(text, reduce_gradients_pass(4, bucket_bytes)));
}

constexpr const char* kTwoGradients =
    "graph g {\n"
    "  input %d: f32[B,3]\n"
    "  input %x: f32[B,4]\n"
    "  backward @m\n"
    "  %d_w: f32[3,4] !gradient = matmul(%d, %x, _, _, _) {ta=1, tb=0}\n"
    "  %d_v: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
    "  optimizer @\n"
    "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w, %d_v)\n"
    "}\n";

TEST(ReduceGradients, OneBucketIsReducedAtTheEndOfTheBackwardPass) {
  EXPECT_EQ(after(kTwoGradients, 1 << 20),
            "graph g {\n"
            "  input %d: f32[B,3]\n"
            "  input %x: f32[B,4]\n"
            "  backward @m\n"
            "  %d_w: f32[3,4] !gradient = matmul(%d, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_v: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_w.sum: f32[3,4] into %d_w !gradient, %d_v.sum: f32[4,4] into %d_v !gradient = "
            "all_reduce(%d_w, %d_v) {ranks=4}\n"
            "  optimizer @\n"
            "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w.sum, %d_v.sum)\n"
            "}\n");
}

TEST(ReduceGradients, AFullBucketIsReducedWhileTheBackwardPassRuns) {
  EXPECT_EQ(after(kTwoGradients, 48),
            "graph g {\n"
            "  input %d: f32[B,3]\n"
            "  input %x: f32[B,4]\n"
            "  backward @m\n"
            "  %d_w: f32[3,4] !gradient = matmul(%d, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_w.sum: f32[3,4] into %d_w !gradient = all_reduce(%d_w) {ranks=4}\n"
            "  %d_v: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_v.sum: f32[4,4] into %d_v !gradient = all_reduce(%d_v) {ranks=4}\n"
            "  optimizer @\n"
            "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w.sum, %d_v.sum)\n"
            "}\n");
}

// %d_v is so large that it is summed over the ranks alone, so that %d_w need not wait for it.
TEST(ReduceGradients, ALargeGradientIsSummedAlone) {
  EXPECT_EQ(after(kTwoGradients, 64),
            "graph g {\n"
            "  input %d: f32[B,3]\n"
            "  input %x: f32[B,4]\n"
            "  backward @m\n"
            "  %d_w: f32[3,4] !gradient = matmul(%d, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_w.sum: f32[3,4] into %d_w !gradient = all_reduce(%d_w) {ranks=4}\n"
            "  %d_v: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_v.sum: f32[4,4] into %d_v !gradient = all_reduce(%d_v) {ranks=4}\n"
            "  optimizer @\n"
            "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w.sum, %d_v.sum)\n"
            "}\n");
}

// Gradients are summed over the ranks in groups, when a group has enough bytes. Here an op of the backward pass reads a gradient before its
// group is large enough, so the group must be summed before this op.
TEST(ReduceGradients, ABucketIsReducedBeforeItsFirstReader) {
  EXPECT_EQ(after("graph g {\n"
                  "  input %x: f32[B,4]\n"
                  "  backward @m\n"
                  "  %d_w: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
                  "  %y: f32[4,4] !output = gelu(%d_w)\n"
                  "}\n",
                  1 << 20),
            "graph g {\n"
            "  input %x: f32[B,4]\n"
            "  backward @m\n"
            "  %d_w: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
            "  %d_w.sum: f32[4,4] into %d_w !gradient = all_reduce(%d_w) {ranks=4}\n"
            "  %y: f32[4,4] !output = gelu(%d_w.sum)\n"
            "}\n");
}

// 16-bit gradients and fp32 gradients are summed over the ranks by separate operations.
TEST(ReduceGradients, ABucketHasOneTypeOfElement) {
  const std::string text = after(
      "graph g {\n"
      "  input %x: f32[B,4]\n"
      "  input %z: bf16[B,4]\n"
      "  backward @m\n"
      "  %d_w: f32[4,4] !gradient = matmul(%x, %x, _, _, _) {ta=1, tb=0}\n"
      "  %d_u: bf16[4,4] !gradient = matmul(%z, %z, _, _, _) {ta=1, tb=0}\n"
      "}\n",
      1 << 20);
  EXPECT_NE(text.find("= all_reduce(%d_w) {ranks=4}"), std::string::npos) << text;
  EXPECT_NE(text.find("= all_reduce(%d_u) {ranks=4}"), std::string::npos) << text;
}

// A gradient that is added up over micro-batches is summed over the ranks once per step.
TEST(ReduceGradients, AccumulatedGradientsAreReducedInTheOptimizerSegment) {
  EXPECT_EQ(after("graph g {\n"
                  "  input %d: f32[B,3]\n"
                  "  input %x: f32[B,4]\n"
                  "  input %accumulate: i32[1]\n"
                  "  gradient %gradient/d_w: f32[3,4]\n"
                  "  backward @m\n"
                  "  %d_w: f32[3,4] into %gradient/d_w !gradient = "
                  "matmul(%d, %x, _, %gradient/d_w, %accumulate) {ta=1, tb=0}\n"
                  "  optimizer @\n"
                  "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w)\n"
                  "}\n",
                  16),
            "graph g {\n"
            "  input %d: f32[B,3]\n"
            "  input %x: f32[B,4]\n"
            "  input %accumulate: i32[1]\n"
            "  gradient %gradient/d_w: f32[3,4]\n"
            "  backward @m\n"
            "  %d_w: f32[3,4] into %gradient/d_w !gradient = "
            "matmul(%d, %x, _, %gradient/d_w, %accumulate) {ta=1, tb=0}\n"
            "  optimizer @m\n"
            "  %d_w.sum: f32[3,4] into %d_w !gradient = all_reduce(%d_w) {ranks=4}\n"
            "  optimizer @\n"
            "  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_w.sum)\n"
            "}\n");
}

}  // namespace
}  // namespace plimsoll
