// Tests of the two passes that insert copies between device and host or disk, and of the ops at which these copies must have ended. Graphs
// are given as text.
#include "graph/analysis/analysis.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/analysis/liveness.h"
#include "graph/ir/graph.h"
#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"
#include "graph/passes/testing/pass_text.h"
#include "graph/passes/transfer_schedule.h"

namespace plimsoll {
namespace {

using testing::graph_of;

constexpr const char* kSaved = R"(graph saved {
  input %x: f32[T,4]
  output %y: f32[1]
  forward @a
  %a: f32[T,4] = tanh(%x)
  %b: f32[T,4] = tanh(%a)
  %c: f32[T,4] = tanh(%b)
  %d: f32[T,4] = tanh(%c)
  %e: f32[T,4] = tanh(%d)
  backward @a
  %d_e: f32[T,4] = tanh_bwd(%e, %e)
  %d_d: f32[T,4] = tanh_bwd(%d_e, %d)
  %d_c: f32[T,4] = tanh_bwd(%d_d, %c)
  %d_b: f32[T,4] = tanh_bwd(%d_c, %b)
  %d_a: f32[T,4] = tanh_bwd(%d_b, %a)
}
)";

TEST(OffloadActivations, TheFirstSavedGoAndComeBackTwoReadersAhead) {
  Graph graph = graph_of(kSaved);
  offload_activations_pass({.tokens = 8, .sequences = 1, .longest = 8}, 128).run(graph);
  verify(graph, "after the pass");
  EXPECT_EQ(print_graph(graph), R"(graph saved {
  input %x: f32[T,4]
  output %y: f32[1]
  forward @a
  %a: f32[T,4] = tanh(%x)
  %a.on_host: f32[T,4] !host = copy(%a) {count=1, into=0, to="host"}
  %b: f32[T,4] = tanh(%a)
  %b.on_host: f32[T,4] !host = copy(%b) {count=1, into=0, to="host"}
  %c: f32[T,4] = tanh(%b)
  %c.on_host: f32[T,4] !host = copy(%c) {count=1, into=0, to="host"}
  %d: f32[T,4] = tanh(%c) {ended=1}
  %e: f32[T,4] = tanh(%d) {ended=2}
  backward @a
  %d_e: f32[T,4] = tanh_bwd(%e, %e)
  %c.back: f32[T,4] = copy(%c.on_host) {count=1, into=0, to="device"}
  %d_d: f32[T,4] = tanh_bwd(%d_e, %d)
  %b.back: f32[T,4] = copy(%b.on_host) {count=1, into=0, to="device"}
  %d_c: f32[T,4] = tanh_bwd(%d_d, %c.back)
  %a.back: f32[T,4] = copy(%a.on_host) {count=1, into=0, to="device"}
  %d_b: f32[T,4] = tanh_bwd(%d_c, %b.back)
  %d_a: f32[T,4] = tanh_bwd(%d_b, %a.back)
}
)");
  // Printing the graph and parsing the text gives the same graph.
  EXPECT_EQ(print_graph(graph_of(print_graph(graph))), print_graph(graph));
}

// The memory limit lets %c stay on the device between the forward and the backward pass. %b is copied to the host, and the remaining memory
// gives its copies more time.
TEST(OffloadActivations, ValuesStayIfTheyFit) {
  Graph graph = graph_of(kSaved);
  const Bucket bucket{.tokens = 8, .sequences = 1, .longest = 8};
  ActivationHeadroom room{.live_bytes = live_bytes(find_live_ranges(graph, bucket), graph.ops().size(), 1),
                          .most_bytes = 4 * 128,
                          .most_ahead = 3};
  offload_activations_pass(bucket, 128, room).run(graph);
  verify(graph, "after the pass");
  EXPECT_EQ(print_graph(graph), R"(graph saved {
  input %x: f32[T,4]
  output %y: f32[1]
  forward @a
  %a: f32[T,4] = tanh(%x)
  %a.on_host: f32[T,4] !host = copy(%a) {count=1, into=0, to="host"}
  %b: f32[T,4] = tanh(%a)
  %b.on_host: f32[T,4] !host = copy(%b) {count=1, into=0, to="host"}
  %c: f32[T,4] = tanh(%b)
  %d: f32[T,4] = tanh(%c)
  %e: f32[T,4] = tanh(%d) {ended=1}
  backward @a
  %d_e: f32[T,4] = tanh_bwd(%e, %e)
  %d_d: f32[T,4] = tanh_bwd(%d_e, %d)
  %b.back: f32[T,4] = copy(%b.on_host) {count=1, into=0, to="device"}
  %d_c: f32[T,4] = tanh_bwd(%d_d, %c)
  %a.back: f32[T,4] = copy(%a.on_host) {count=1, into=0, to="device"}
  %d_b: f32[T,4] = tanh_bwd(%d_c, %b.back)
  %d_a: f32[T,4] = tanh_bwd(%d_b, %a.back)
}
)");
  std::vector<LiveRange> on_device = find_live_ranges(graph, bucket);
  std::erase_if(on_device,
                [&](const LiveRange& range) { return graph.value(range.root).space == Space::kHost; });
  EXPECT_EQ(std::ranges::max(live_bytes(on_device, graph.ops().size(), 1)), room.most_bytes);
  room.most_bytes = 6 * 128;
  Graph all = graph_of(kSaved);
  offload_activations_pass(bucket, 128, room).run(all);
  EXPECT_EQ(print_graph(all), print_graph(graph_of(kSaved)));
}

TEST(OffloadActivations, SmallValuesStay) {
  Graph graph = graph_of(kSaved);
  offload_activations_pass({.tokens = 8, .sequences = 1, .longest = 8}, 129).run(graph);
  EXPECT_EQ(print_graph(graph), print_graph(graph_of(kSaved)));
}

TEST(Copies, EndBeforeTheOpsThatNeedThem) {
  Graph graph = graph_of(kSaved);
  offload_activations_pass({.tokens = 8, .sequences = 1, .longest = 8}, 128).run(graph);
  const std::vector<QueuedOp> copies = find_queued_ops(graph);
  ASSERT_EQ(copies.size(), 6u);
  // The copy of a value to the host may last until the next two values have been computed. The copy of %a therefore ends before the op that
  // follows the one that computes %c, and the copy of %b before the op that follows the one that computes %d. The copy of %c ends with the
  // forward pass.
  EXPECT_EQ(copies[0].op, 1u);
  EXPECT_EQ(copies[0].end, 6u);
  EXPECT_EQ(copies[1].end, 7u);
  EXPECT_EQ(copies[2].end, 8u);
  // The copies back to the device end before the ops that read them.
  EXPECT_EQ(copies[3].op, 9u);
  EXPECT_EQ(copies[3].end, 12u);
  EXPECT_EQ(copies[4].end, 14u);
  EXPECT_EQ(copies[5].end, 15u);
  // A value that is copied to the host is live until an op waits for the copy. A value that is copied back is live from the start of its
  // copy.
  for (const LiveRange& range : find_live_ranges(graph, {.tokens = 8, .sequences = 1, .longest = 8})) {
    const std::string& name = graph.value(range.root).name;
    if (name == "a") {
      EXPECT_EQ(range.last, 5u);
    } else if (name == "b") {
      EXPECT_EQ(range.last, 6u);
    } else if (name == "c.back") {
      EXPECT_EQ(range.first, 9u);
      EXPECT_EQ(range.last, 12u);
    }
  }
}

constexpr const char* kUpdates = R"(graph updates {
  input %lr: f64[1]
  input %step: i64[1]
  input %finite: f32[1]
  weight %p: f32[4]
  state %m: f32[4]
  weight %q: f32[4]
  state %n: f32[4]
  weight %r: f32[4]
  state %o: f32[4]
  input %g: f32[4]
  forward @a
  %x: f32[4] = tanh(%p)
  %y: f32[4] = tanh(%q)
  %z: f32[4] = tanh(%r)
  optimizer @optimizer
  %p.1: f32[4] into %p, %m.1: f32[4] into %m = lion(%lr, %step, _, %finite, %p, %g, %m) {copies=0}
  %q.1: f32[4] into %q, %n.1: f32[4] into %n = lion(%lr, %step, _, %finite, %q, %g, %n) {copies=0}
  %r.1: f32[4] into %r, %o.1: f32[4] into %o = lion(%lr, %step, _, %finite, %r, %g, %o) {copies=0}
}
)";

TEST(OffloadStates, OneUpdateAheadAndTwoAtATime) {
  Graph graph = graph_of(kUpdates);
  offload_states_pass().run(graph);
  verify(graph, "after the pass");
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("state %m: f32[4] !host\n"), std::string::npos) << text;
  EXPECT_NE(text.find("weight %p: f32[4]\n"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.find("  optimizer @optimizer")), R"(  optimizer @optimizer
  %m.staged: f32[4] = copy(%m) {count=1, into=0, to="device"}
  %n.staged: f32[4] = copy(%n) {count=1, into=0, to="device"}
  %p.1: f32[4] into %p, %m.1: f32[4] into %m.staged = lion(%lr, %step, _, %finite, %p, %g, %m.staged) {copies=0}
  %m.stored: f32[4] into %m !host = copy(%m.1, %m) {count=1, into=1, to="host"}
  %o.staged: f32[4] = copy(%o) {count=1, ended=1, into=0, to="device"}
  %q.1: f32[4] into %q, %n.1: f32[4] into %n.staged = lion(%lr, %step, _, %finite, %q, %g, %n.staged) {copies=0}
  %n.stored: f32[4] into %n !host = copy(%n.1, %n) {count=1, into=1, to="host"}
  %r.1: f32[4] into %r, %o.1: f32[4] into %o.staged = lion(%lr, %step, _, %finite, %r, %g, %o.staged) {copies=0}
  %o.stored: f32[4] into %o !host = copy(%o.1, %o) {count=1, into=1, to="host"}
}
)") << text;
  EXPECT_EQ(print_graph(graph_of(text)), text);
}

// While an update runs, the states of the next update are read from the disk and those of the previous update are written to it. No read
// waits for a write, so that the states of three updates are on the device at a time.
TEST(OffloadStates, OneUpdateAheadAndThreeAtATimeOnADisk) {
  Graph graph = graph_of(kUpdates);
  offload_states_pass({}, Space::kDisk).run(graph);
  verify(graph, "after the pass");
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("state %m: f32[4] !disk\n"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.find("  optimizer @optimizer")), R"(  optimizer @optimizer
  %m.staged: f32[4] = copy(%m) {count=1, into=0, to="device"}
  %n.staged: f32[4] = copy(%n) {count=1, into=0, to="device"}
  %p.1: f32[4] into %p, %m.1: f32[4] into %m.staged = lion(%lr, %step, _, %finite, %p, %g, %m.staged) {copies=0}
  %m.stored: f32[4] into %m !disk = copy(%m.1, %m) {count=1, into=1, to="disk"}
  %o.staged: f32[4] = copy(%o) {count=1, into=0, to="device"}
  %q.1: f32[4] into %q, %n.1: f32[4] into %n.staged = lion(%lr, %step, _, %finite, %q, %g, %n.staged) {copies=0}
  %n.stored: f32[4] into %n !disk = copy(%n.1, %n) {count=1, into=1, to="disk"}
  %r.1: f32[4] into %r, %o.1: f32[4] into %o.staged = lion(%lr, %step, _, %finite, %r, %g, %o.staged) {copies=0}
  %o.stored: f32[4] into %o !disk = copy(%o.1, %o) {count=1, into=1, to="disk"}
}
)") << text;
  EXPECT_EQ(print_graph(graph_of(text)), text);
  // No read from the disk waits for a write, because the program has only three updates. The states of a fourth update would need the
  // memory of the first update's states.
  for (const QueuedOp& queued : find_queued_ops(graph)) {
    const bool writes = graph.value(graph.ops()[queued.op].outputs[0]).space == Space::kDisk;
    EXPECT_EQ(queued.queue, writes ? Queue::kToHost : Queue::kToDevice);
    EXPECT_TRUE(!writes || queued.end == graph.ops().size()) << queued.op << " ends before " << queued.end;
  }
}

// Builds a graph with one state of 16 bytes and one state of `elements` elements, and returns the sizes in bytes of those that the pass
// moves to the host.
std::vector<int64_t> moved_bytes(int64_t elements, std::string_view segment) {
  const Graph graph = graph_of(fmt::format(R"(graph updates {{
  input %lr: f64[1]
  input %step: i64[1]
  input %finite: f32[1]
  weight %p: f32[4]
  state %m: f32[4]
  weight %q: f32[{0}]
  state %n: f32[{0}]
  input %g: f32[4]
  input %h: f32[{0}]
  forward @a
  %x: f32[4] = tanh(%p)
  %y: f32[{0}] = tanh(%q)
  {1} @b
  %p.1: f32[4] into %p, %m.1: f32[4] into %m = lion(%lr, %step, _, %finite, %p, %g, %m) {{copies=0}}
  %q.1: f32[{0}] into %q, %n.1: f32[{0}] into %n = lion(%lr, %step, _, %finite, %q, %h, %n) {{copies=0}}
}}
)",
                                           elements, segment));
  std::vector<int64_t> bytes;
  for (const MovedUpdate& update : find_moved_updates(graph)) bytes.push_back(update.bytes);
  return bytes;
}

TEST(OffloadStates, InTheForwardPassSmallStatesStay) {
  EXPECT_EQ(moved_bytes(2044, "forward"), (std::vector<int64_t>{8176}));
  EXPECT_EQ(moved_bytes(2043, "forward"), (std::vector<int64_t>{16, 8172}));
  EXPECT_EQ(moved_bytes(2044, "optimizer"), (std::vector<int64_t>{16, 8176}));
}

// The state of the last update stays on the device after the step. The next forward pass copies it to the host, and waits for this copy
// before it needs the memory.
TEST(OffloadStates, AStateIsCopiedBackDuringTheNextForwardPass) {
  Graph graph = graph_of(kUpdates);
  MemoryHeadroom room{.live_bytes = {0, 40, 48, 0, 0, 0},
                      .op_ms = std::vector<double>(6, 1.0),
                      .most_bytes = 48,
                      .link_bytes_per_ms = 16,
                      .first = 3,
                      .may_defer = true};
  offload_states_pass(room).run(graph);
  verify(graph, "after the pass");
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("  deferred %o.staged.left: f32[4]\n"), std::string::npos) << text;
  EXPECT_NE(text.find(R"(  forward @optimizer
  %o.stored: f32[4] into %o !host = copy(%o.staged.left, %o) {count=1, into=1, to="host"}
)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%o.staged: f32[4] into %o.staged.left = copy(%o.stored, %o.staged.left) {count=1,"),
            std::string::npos)
      << text;
  EXPECT_EQ(print_graph(graph_of(text)), text);
  // The state's memory is free for other values after the op that waits for its copy to the host, until the copy back to the device starts.
  const ValueId left = graph.find("o.staged.left");
  const std::vector<LiveRange> ranges = find_live_ranges(graph, {});
  const auto range = std::ranges::find(ranges, left, &LiveRange::root);
  ASSERT_NE(range, ranges.end());
  const auto position = [&](const char* value) {
    return static_cast<uint32_t>(graph.value(graph.find(value)).producer);
  };
  EXPECT_EQ(range->first, position("o.staged"));
  EXPECT_LT(range->last, position("z"));
  EXPECT_EQ(find_queued_ops(graph).front().end, range->last + 1);
}

constexpr const char* kLargeUpdate = R"(graph large {
  input %lr: f64[1]
  input %step: i64[1]
  input %finite: f32[1]
  weight %p: f32[6,4]
  state %m: f32[6,4]
  input %g: f32[6,4]
  forward @a
  %x: f32[6,4] = tanh(%p)
  optimizer @optimizer
  %p.1: f32[6,4] into %p, %m.1: f32[6,4] into %m = lion(%lr, %step, _, %finite, %p, %g, %m) {copies=0}
}
)";

// While the second slice of the state is updated, the third slice is copied to the device and the first slice back to the host, where it
// overwrites its own rows of the state.
TEST(OffloadStates, SlicesOfAStateAreCopiedOneByOne) {
  Graph graph = graph_of(kLargeUpdate);
  slice_updates_pass(8, SlicedUpdates::kAll).run(graph);
  verify(graph, "after the first pass");
  offload_states_pass().run(graph);
  verify(graph, "after the second pass");
  const std::string text = print_graph(graph);
  EXPECT_EQ(text.substr(text.find("  optimizer @optimizer")), R"(  optimizer @optimizer
  %m.staged: f32[2,4] = copy(%m) {count=1, elements=8, first=0, into=0, of=24, to="device"}
  %m.staged.1: f32[2,4] = copy(%m) {count=1, elements=8, first=8, into=0, of=24, to="device"}
  %p.1.slice: f32[6,4] into %p, %m.1.slice: f32[2,4] into %m.staged = lion(%lr, %step, _, %finite, %p, %g, %m.staged) {copies=0, elements=8, first=0, of=24}
  %m.stored: f32[6,4] into %m !host = copy(%m.1.slice, %m) {count=1, elements=8, first=0, into=1, of=24, to="host"}
  %m.staged.2: f32[2,4] = copy(%m.stored) {count=1, elements=8, ended=1, first=16, into=0, of=24, to="device"}
  %p.1.slice.1: f32[6,4] into %p.1.slice, %m.1.slice.1: f32[2,4] into %m.staged.1 = lion(%lr, %step, _, %finite, %p.1.slice, %g, %m.staged.1) {copies=0, elements=8, first=8, of=24}
  %m.stored.1: f32[6,4] into %m.stored !host = copy(%m.1.slice.1, %m.stored) {count=1, elements=8, first=8, into=1, of=24, to="host"}
  %p.1: f32[6,4] into %p.1.slice.1, %m.1: f32[2,4] into %m.staged.2 = lion(%lr, %step, _, %finite, %p.1.slice.1, %g, %m.staged.2) {copies=0, elements=8, first=16, of=24}
  %m.stored.2: f32[6,4] into %m.stored.1 !host = copy(%m.1, %m.stored.1) {count=1, elements=8, first=16, into=1, of=24, to="host"}
}
)") << text;
  EXPECT_EQ(print_graph(graph_of(text)), text);
  const std::vector<QueuedOp> copies = find_queued_ops(graph);
  ASSERT_EQ(copies.size(), 6u);
  EXPECT_EQ(copies[2].end, 5u);
  // This copy to the device may still run when %m.stored.1 is written to the host, because that write changes other elements of the state.
  EXPECT_EQ(copies[3].op, 5u);
  EXPECT_EQ(copies[3].end, 8u);
}

constexpr const char* kLookedUp = R"(graph looked_up {
  input %cu: i32[B+1]
  input %ids: i32[T]
  input %lr: f64[1]
  input %step: i64[1]
  weight %p: bf16[5,4]
  state %m: f32[5,4]
  state %v: f32[5,4]
  weight %q: bf16[2,4]
  state %n: f32[2,4]
  state %w: f32[2,4]
  input %h: f32[2,4]
  forward @a
  %x: bf16[T,4] = embedding_sum(%cu, %ids, %p)
  backward @a
  %d_x: bf16[T,4] = tanh_bwd(%x, %x)
  %sorted: i32[T,2] = sort_ids(%cu, %ids) {rows=5}
  %d_p: f32[5,4] = embedding_bwd(%sorted, %d_x, _, _) {dtype="f32", padding_id=0, rows=5}
  %norm: f32[1], %finite: f32[1] = global_norm(%h, %d_p)
  %q.1: bf16[2,4] into %q, %n.1: f32[2,4] into %n, %w.1: f32[2,4] into %w, %p.1: bf16[5,4] into %p, %m.1: f32[5,4] into %m, %v.1: f32[5,4] into %v = adamw(%lr, %step, _, %finite, %q, %h, %n, %w, %p, %d_p, %m, %v) {copies=0, noise_site=7, split=0}
}
)";

TEST(SliceUpdates, TheGradientOfATableIsComputedByRows) {
  Graph graph = graph_of(kLookedUp);
  slice_updates_pass(12, SlicedUpdates::kOfLookedUpTables).run(graph);
  verify(graph, "after the pass");
  const std::string text = print_graph(graph);
  EXPECT_EQ(text.substr(text.find("  backward @a")), R"(  backward @a
  %d_x: bf16[T,4] = tanh_bwd(%x, %x)
  %sorted: i32[T,2] = sort_ids(%cu, %ids) {rows=5}
  %d_p.rows: f32[3,4] = embedding_bwd(%sorted, %d_x, _, _) {dtype="f32", first_row=0, of_rows=5, padding_id=0, rows=3}
  %norm.rows: f32[1], %finite.rows: f32[1] = global_norm(%d_p.rows)
  %d_p.rows.1: f32[2,4] = embedding_bwd(%sorted, %d_x, _, _) {dtype="f32", first_row=3, of_rows=5, padding_id=0, rows=2}
  %norm.rows.1: f32[1], %finite.rows.1: f32[1] = global_norm(%d_p.rows.1)
  %norm: f32[1], %finite: f32[1] = global_norm(%h, %norm.rows, %norm.rows.1)
  %q.1: bf16[2,4] into %q, %n.1: f32[2,4] into %n, %w.1: f32[2,4] into %w = adamw(%lr, %step, _, %finite, %q, %h, %n, %w) {copies=0, noise_site=7, split=0}
  %d_p.rows.2: f32[3,4] = embedding_bwd(%sorted, %d_x, _, _) {dtype="f32", first_row=0, of_rows=5, padding_id=0, rows=3}
  %p.1.slice: bf16[5,4] into %p, %m.1.slice: f32[5,4] into %m, %v.1.slice: f32[5,4] into %v = adamw(%lr, %step, _, %finite, %p, %d_p.rows.2, %m, %v) {copies=0, elements=12, first=0, noise_site=8, of=20, split=0}
  %d_p.rows.3: f32[2,4] = embedding_bwd(%sorted, %d_x, _, _) {dtype="f32", first_row=3, of_rows=5, padding_id=0, rows=2}
  %p.1: bf16[5,4] into %p.1.slice, %m.1: f32[5,4] into %m.1.slice, %v.1: f32[5,4] into %v.1.slice = adamw(%lr, %step, _, %finite, %p.1.slice, %d_p.rows.3, %m.1.slice, %v.1.slice) {copies=0, elements=8, first=12, noise_site=8, of=20, split=0}
}
)") << text;
  EXPECT_EQ(print_graph(graph_of(text)), text);
}

// Two cases in which an update is not cut into slices: kOfLookedUpTables, because no embedding lookup produces the gradient, and kAll,
// because the parameter has no more elements than the limit of 24.
TEST(SliceUpdates, LeavesUpdatesOfWholeParameters) {
  Graph graph = graph_of(kLargeUpdate);
  slice_updates_pass(8, SlicedUpdates::kOfLookedUpTables).run(graph);
  EXPECT_EQ(print_graph(graph), print_graph(graph_of(kLargeUpdate)));
  slice_updates_pass(24, SlicedUpdates::kAll).run(graph);
  EXPECT_EQ(print_graph(graph), print_graph(graph_of(kLargeUpdate)));
}

TEST(Spaces, OnlyCopiesMayReadHostMemory) {
  Graph graph = graph_of(R"(graph bad {
  input %x: f32[4]
  forward @a
  %a: f32[4] = tanh(%x)
}
)");
  graph.value(graph.find("x")).space = Space::kHost;
  const auto violation = find_violation(graph);
  ASSERT_TRUE(violation.has_value());
  EXPECT_NE(
      violation->find("can only work on values in device memory, but 'x' is in the memory space 'host'"),
      std::string::npos)
      << *violation;
}

}  // namespace
}  // namespace plimsoll
