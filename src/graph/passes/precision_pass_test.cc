#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

// The first lines of each test graph: the declarations of inputs and weights, which the pass does not change.
constexpr const char* kHead = R"(graph g {
  input %cu: i32[B+1]
  input %ids: i32[T]
  weight %table: f32[10,4]
  weight %gain: f32[4]
  weight %beta: f32[4]
  weight %w: f32[3,4]
  input %labels: i32[B]
  input %denominator: f32[1]
)";
constexpr const char* kLoss = R"(  %p: f32[B,3] = log_softmax(%logits)
  %loss: f32[1] !output = nll(%p, %labels, %denominator) {smoothing=0.0}
}
)";

std::string model() {
  return std::string(kHead) + R"(  forward @m
  %x: f32[T,4] = embedding_sum(%cu, %ids, %table) {padding_id=0}
  %n: f32[T,4], %rstd: f32[T] = normalize(%x) {eps=1e-12}
  %h: f32[T,4] = scale_shift(%n, %gain, %beta)
  %f: f32[B,4] = first_token(%h, %cu)
  %logits: f32[B,3] !output = matmul(%f, %w, _, _, _) {ta=0, tb=1}
)" + kLoss;
}

// Returns the graph that the pass must produce for this 16-bit type. "16" in the text is a placeholder for the type.
std::string expected(const std::string& dtype) {
  std::string body = R"(  forward @m
  %x: 16[T,4] = embedding_sum(%cu, %ids, %table) {dtype="16", padding_id=0}
  %n: 16[T,4], %rstd: f32[T] = normalize(%x) {eps=1e-12}
  %h: 16[T,4] = scale_shift(%n, %gain, %beta)
  %f: 16[B,4] = first_token(%h, %cu)
  %logits.16: 16[B,3] = matmul(%f, %w, _, _, _) {ta=0, tb=1}
  %logits: f32[B,3] !output = cast(%logits.16) {dtype="f32"}
)";
  for (size_t at = body.find("16"); at != std::string::npos; at = body.find("16", at + dtype.size()))
    body.replace(at, 2, dtype);
  return kHead + body + kLoss;
}

// Weights and statistics stay in fp32. The 16-bit logits are cast back to fp32 for the loss, and the result of the cast keeps the name of
// the logits.
TEST(Precision, ActivationsAreIn16BitsUpToTheLogits) {
  EXPECT_EQ(print_graph(testing::after_pass(model(), precision_pass(DType::kBF16))), expected("bf16"));
  EXPECT_EQ(print_graph(testing::after_pass(model(), precision_pass(DType::kF16))), expected("f16"));
}

}  // namespace
}  // namespace plimsoll
