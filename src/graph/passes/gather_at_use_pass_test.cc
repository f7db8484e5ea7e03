#include <gtest/gtest.h>

#include "graph/analysis/analysis.h"
#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

// A table that is read before the layers, the matrices of two layers, and a bias. Each rank has updated its slices when the step ends.
constexpr const char* kStep = R"(graph g {
  input %x: f32[T,4]
  input %learning_rate: f64[1]
  input %step: i64[1]
  input %finite: f32[1]
  input %d_a: f32[4,4]
  input %d_b: f32[4,4]
  input %d_c: f32[4]
  input %d_table: f32[4,4]
  weight %a: f32[4,4]
  weight %b: f32[4,4]
  weight %c: f32[4]
  weight %table: f32[4,4]
  forward @embeddings
  %x0: f32[T,4] = matmul(%x, %table, _, _, _) {ta=0, tb=0}
  forward @layer.0
  %x1: f32[T,4] = matmul(%x0, %a, %c, _, _) {ta=0, tb=0}
  forward @layer.1
  %x2: f32[T,4] = matmul(%x1, %b, _, _, _) {ta=0, tb=0}
  backward @layer.1
  %d_x: f32[T,4] !output = matmul(%x2, %b, _, _, _) {ta=0, tb=1}
  optimizer @
  %b.updated: f32[4,4] into %b, %a.updated: f32[4,4] into %a = sgd(%learning_rate, %step, _, %finite, %b, %d_b, %a, %d_a) {copies=0, momentum=0.0, nesterov=0, ranks=2, weight_decay=0.0}
  %b.updated.gathered: f32[4,4] into %b.updated, %a.updated.gathered: f32[4,4] into %a.updated = all_gather(%b.updated, %a.updated) {ranks=2}
  %c.updated: f32[4] into %c, %table.updated: f32[4,4] into %table = sgd(%learning_rate, %step, _, %finite, %c, %d_c, %table, %d_table) {copies=0, momentum=0.0, nesterov=0, ranks=2, weight_decay=0.0}
  %c.updated.gathered: f32[4] into %c.updated, %table.updated.gathered: f32[4,4] into %table.updated = all_gather(%c.updated, %table.updated) {ranks=2}
}
)";

// The forward pass gathers the matrices of the layers, in the order in which it reads them. The table, which it reads first, and the bias
// are gathered after their update, which now comes first.
TEST(GatherAtUse, MovesTheMatricesOfLayersToTheNextForwardPass) {
  EXPECT_EQ(print_graph(testing::after_pass(kStep, gather_at_use_pass())), R"(graph g {
  input %x: f32[T,4]
  input %learning_rate: f64[1]
  input %step: i64[1]
  input %finite: f32[1]
  input %d_a: f32[4,4]
  input %d_b: f32[4,4]
  input %d_c: f32[4]
  input %d_table: f32[4,4]
  weight %a: f32[4,4]
  weight %b: f32[4,4]
  weight %c: f32[4]
  weight %table: f32[4,4]
  forward @layer.0
  %a.gathered: f32[4,4] into %a = all_gather(%a) {ranks=2}
  forward @layer.1
  %b.gathered: f32[4,4] into %b = all_gather(%b) {ranks=2}
  forward @embeddings
  %x0: f32[T,4] = matmul(%x, %table, _, _, _) {ta=0, tb=0}
  forward @layer.0
  %x1: f32[T,4] = matmul(%x0, %a.gathered, %c, _, _) {ta=0, tb=0}
  forward @layer.1
  %x2: f32[T,4] = matmul(%x1, %b.gathered, _, _, _) {ta=0, tb=0}
  backward @layer.1
  %d_x: f32[T,4] !output = matmul(%x2, %b.gathered, _, _, _) {ta=0, tb=1}
  optimizer @
  %c.updated: f32[4] into %c, %table.updated: f32[4,4] into %table = sgd(%learning_rate, %step, _, %finite, %c, %d_c, %table, %d_table) {copies=0, momentum=0.0, nesterov=0, ranks=2, weight_decay=0.0}
  %c.updated.gathered: f32[4] into %c.updated, %table.updated.gathered: f32[4,4] into %table.updated = all_gather(%c.updated, %table.updated) {ranks=2}
  %b.updated: f32[4,4] into %b.gathered, %a.updated: f32[4,4] into %a.gathered = sgd(%learning_rate, %step, _, %finite, %b.gathered, %d_b, %a.gathered, %d_a) {copies=0, momentum=0.0, nesterov=0, ranks=2, weight_decay=0.0}
}
)");
}

// The gathers of the forward pass are deferred ops: they do what the optimizer of the previous run has left.
TEST(GatherAtUse, GathersAreDeferredFromTheOptimizer) {
  const Graph graph = testing::after_pass(kStep, gather_at_use_pass());
  const std::vector<bool> is_deferred = find_deferred_ops(graph);
  for (size_t i = 0; i < is_deferred.size(); ++i) EXPECT_EQ(is_deferred[i], i < 2) << i;
  EXPECT_EQ(find_deferring_segment(graph, is_deferred), Segment::kOptimizer);
  const Graph before = parse_graph(kStep, find_op);
  EXPECT_EQ(find_deferring_segment(before, find_deferred_ops(before)), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
