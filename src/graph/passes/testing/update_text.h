// A training step of two parameters as the text of a graph, for tests of the passes that divide it among ranks. Thread-safe: a constant.
#pragma once

namespace plimsoll::testing {

// The backward pass and the update of a weight of 1024 elements and a bias of 256, whose gradients two ranks sum.
inline constexpr const char* kUpdateOfTwoRanks = R"(graph g {
  input %x: f32[B,4]
  input %y: f32[B,256]
  input %learning_rate: f64[1]
  input %step: i64[1]
  input %loss: f32[1]
  weight %w: f32[4,256]
  weight %b: f32[256]
  state %m/w: f32[4,256]
  state %m/b: f32[256]
  backward @m
  %d_w: f32[4,256] !gradient = matmul(%x, %y, _, _, _) {ta=1, tb=0}
  %d_b: f32[256] !gradient = bias_grad(%y, _, _)
  %d_w.sum: f32[4,256] into %d_w !gradient, %d_b.sum: f32[256] into %d_b !gradient = all_reduce(%d_w, %d_b) {ranks=2}
  optimizer @
  %norm: f32[1] !output, %finite: f32[1] !output, %bad: i64[1] !output = global_norm(%d_w.sum, %d_b.sum, %loss) {names_bad=1, with_loss=1}
  %w.updated: f32[4,256] into %w, %m.updated/w: f32[4,256] into %m/w, %b.updated: f32[256] into %b, %m.updated/b: f32[256] into %m/b = sgd(%learning_rate, %step, _, %finite, %w, %d_w.sum, %m/w, %b, %d_b.sum, %m/b) {copies=0, momentum=0.9, nesterov=0, weight_decay=0.0}
}
)";

}  // namespace plimsoll::testing
