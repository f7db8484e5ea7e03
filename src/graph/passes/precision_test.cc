#include <gtest/gtest.h>

#include "graph/passes/pass_text.h"

namespace plimsoll {
namespace {

constexpr const char* kModel =
    "graph g {\n"
    "  input %cu: i32[B+1]\n"
    "  input %ids: i32[T]\n"
    "  weight %table: f32[10,4]\n"
    "  weight %gain: f32[4]\n"
    "  weight %beta: f32[4]\n"
    "  weight %w: f32[3,4]\n"
    "  input %labels: i32[B]\n"
    "  input %denominator: f32[1]\n"
    "  forward @m\n"
    "  %x: f32[T,4] = embedding_sum(%cu, %ids, %table) {padding_id=0}\n"
    "  %n: f32[T,4], %rstd: f32[T] = normalize(%x) {eps=1e-12}\n"
    "  %h: f32[T,4] = scale_shift(%n, %gain, %beta)\n"
    "  %f: f32[B,4] = first_token(%h, %cu)\n"
    "  %logits: f32[B,3] !output = matmul(%f, %w, _, _, _) {ta=0, tb=1}\n"
    "  %p: f32[B,3] = log_softmax(%logits)\n"
    "  %loss: f32[1] !output = nll(%p, %labels, %denominator) {smoothing=0.0}\n"
    "}\n";

std::string expected(const std::string& dtype) {
  return "graph g {\n"
         "  input %cu: i32[B+1]\n"
         "  input %ids: i32[T]\n"
         "  weight %table: f32[10,4]\n"
         "  weight %gain: f32[4]\n"
         "  weight %beta: f32[4]\n"
         "  weight %w: f32[3,4]\n"
         "  input %labels: i32[B]\n"
         "  input %denominator: f32[1]\n"
         "  forward @m\n"
         "  %x: " +
         dtype + "[T,4] = embedding_sum(%cu, %ids, %table) {dtype=\"" + dtype +
         "\", padding_id=0}\n"
         "  %n: " +
         dtype +
         "[T,4], %rstd: f32[T] = normalize(%x) {eps=1e-12}\n"
         "  %h: " +
         dtype +
         "[T,4] = scale_shift(%n, %gain, %beta)\n"
         "  %f: " +
         dtype +
         "[B,4] = first_token(%h, %cu)\n"
         "  %logits." +
         dtype + ": " + dtype +
         "[B,3] = matmul(%f, %w, _, _, _) {ta=0, tb=1}\n"
         "  %logits: f32[B,3] !output = cast(%logits." +
         dtype +
         ") {dtype=\"f32\"}\n"
         "  %p: f32[B,3] = log_softmax(%logits)\n"
         "  %loss: f32[1] !output = nll(%p, %labels, %denominator) {smoothing=0.0}\n"
         "}\n";
}

// Weights and statistics stay in fp32; the loss reads logits that were cast back, under their own name.
TEST(Precision, ActivationsAreIn16BitsUpToTheLogits) {
  EXPECT_EQ(print_graph(testing::after_pass(kModel, precision_pass(DType::kBF16))), expected("bf16"));
  EXPECT_EQ(print_graph(testing::after_pass(kModel, precision_pass(DType::kF16))), expected("f16"));
}

}  // namespace
}  // namespace plimsoll
