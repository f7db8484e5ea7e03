// Tests updates that run in the forward pass of the next step, and the copies of their states there, with graphs as text.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "graph/ir/graph.h"
#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::graph_of;

constexpr const char* kStep = R"(graph step {
  input %lr: f64[1]
  input %step: i64[1]
  input %x: f32[4]
  weight %p: f32[4]
  state %m: f32[4]
  weight %q: f32[4]
  state %n: f32[4]
  forward @a
  %a: f32[4] = add(%x, %p)
  %b: f32[4] = tanh(%a)
  %c: f32[4] = add(%b, %q)
  backward @a
  %d_q: f32[4] !gradient = tanh_bwd(%c, %q)
  %d_p: f32[4] !gradient = tanh_bwd(%d_q, %b)
  optimizer @optimizer
  %norm: f32[1] !output, %finite: f32[1] !output = global_norm(%d_q, %d_p)
  %clip: f32[1] = clip_coefficient(%norm) {max_norm=1}
  %q.1: f32[4] into %q, %n.1: f32[4] into %n = lion(%lr, %step, %clip, %finite, %q, %d_q, %n) {copies=0}
  %p.1: f32[4] into %p, %m.1: f32[4] into %m = lion(%lr, %step, %clip, %finite, %p, %d_p, %m) {copies=0}
}
)";

TEST(UpdatesAtUse, RunBeforeTheirWeightsAreRead) {
  Graph graph = graph_of(kStep);
  updates_at_use_pass().run(graph);
  verify(graph, "after the pass");
  const std::string text = print_graph(graph);
  EXPECT_EQ(text, R"(graph step {
  input %lr: f64[1]
  input %step: i64[1]
  input %x: f32[4]
  weight %p: f32[4]
  state %m: f32[4]
  weight %q: f32[4]
  state %n: f32[4]
  output %clip: f32[1]
  output %finite: f32[1]
  deferred %d_p.left: f32[4]
  deferred %d_q.left: f32[4]
  forward @
  %p.1: f32[4] into %p, %m.1: f32[4] into %m = lion(%lr, %step, %clip, %finite, %p, %d_p.left, %m) {copies=0}
  forward @a
  %a: f32[4] = add(%x, %p.1)
  %b: f32[4] = tanh(%a)
  forward @
  %q.1: f32[4] into %q, %n.1: f32[4] into %n = lion(%lr, %step, %clip, %finite, %q, %d_q.left, %n) {copies=0}
  forward @a
  %c: f32[4] = add(%b, %q.1)
  backward @a
  %d_q: f32[4] into %d_q.left !gradient = tanh_bwd(%c, %q.1)
  %d_p: f32[4] into %d_p.left !gradient = tanh_bwd(%d_q, %b)
  optimizer @optimizer
  %norm: f32[1] !output, %finite.next: f32[1] into %finite = global_norm(%d_q, %d_p)
  %clip.next: f32[1] into %clip = clip_coefficient(%norm) {max_norm=1}
}
)");
  // A gradient is live from the op that computes it to the update in the next run.
  for (const LiveRange& range : find_live_ranges(graph, {})) {
    if (graph.value(range.root).name == "d_q.left") {
      EXPECT_EQ(range.first, 5u);
      EXPECT_EQ(range.last, 3u);
    }
    if (graph.value(range.root).name == "d_p.left") {
      EXPECT_EQ(range.first, 6u);
      EXPECT_EQ(range.last, 0u);
    }
  }
  const std::vector<bool> is_deferred = find_deferred_ops(graph);
  EXPECT_EQ(is_deferred, (std::vector<bool>{true, false, false, true, false, false, false, false, false}));
  EXPECT_EQ(find_deferring_segment(graph, is_deferred), Segment::kOptimizer);
}

// Updates do not wait for the next step if gradients accumulate over micro-batches, or if updates run in the backward
// pass.
TEST(UpdatesAtUse, StayIfTheyCannotBeDeferred) {
  std::string in_backward = kStep;
  in_backward.replace(in_backward.find("  optimizer @optimizer"), 22, "  backward @optimizer");
  Graph graph = graph_of(in_backward);
  updates_at_use_pass().run(graph);
  EXPECT_EQ(print_graph(graph), print_graph(graph_of(in_backward)));
}

// The states of the first update are prefetched in the previous step, after the forward pass of that step, into the buffer %m.staged.left.
// The update writes its new states into the same buffer, and the next prefetch then overwrites them. The states of the second update are
// copied during the forward pass.
TEST(UpdatesAtUse, StatesArePrefetchedOrCopiedDuringTheForwardPass) {
  Graph graph = graph_of(kStep);
  updates_at_use_pass().run(graph);
  offload_states_pass({.live_bytes = std::vector<int64_t>(9, 0),
                       .op_ms = std::vector<double>(9, 1.0),
                       .most_bytes = 16,
                       .link_bytes_per_ms = 16})
      .run(graph);
  verify(graph, "after the second pass");
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("  deferred %m.staged.left: f32[4]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("%m.1: f32[4] into %m.staged.left = lion("), std::string::npos) << text;
  EXPECT_NE(text.find("%m.staged: f32[4] into %m.1 = copy(%m.stored, %m.1) {count=1, into=1, to=\"device\"}"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%n.staged: f32[4] = copy(%n) {count=1, ended=1, into=0, to=\"device\"}"),
            std::string::npos)
      << text;
  // Five ops belong to the step of the previous run and are deferred to this run: both updates, the copy of the second update's states to
  // the device, and the copies of both updates' states to the host. The copy of the first update's states to the device is a prefetch for
  // the next run and thus not deferred.
  const std::vector<bool> is_deferred = find_deferred_ops(graph);
  EXPECT_EQ(std::ranges::count(is_deferred, true), 5);
  EXPECT_EQ(find_deferring_segment(graph, is_deferred), Segment::kOptimizer);
  const auto position = [&](const char* value) {
    return static_cast<uint32_t>(graph.value(graph.find(value)).producer);
  };
  const std::vector<LiveRange> ranges = find_live_ranges(graph, {});
  const auto left = std::ranges::find(ranges, graph.find("m.staged.left"), &LiveRange::root);
  ASSERT_NE(left, ranges.end());
  EXPECT_EQ(left->first, position("m.staged"));
  // The states of the first update are back on the host before the states of the second one take their memory.
  EXPECT_EQ(left->last + 1, position("n.staged"));
}

}  // namespace
}  // namespace plimsoll
