// When the states of each update are brought from the host's memory, when they go back and when their bytes
// on the device are free again: what offload_states.cc gives the ops for. Pure functions of numbers;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// An update whose states move.
struct MovedUpdate {
  uint32_t op = 0;  // its position
  Segment segment = Segment::kOptimizer;
  int64_t bytes = 0;      // of the copies on the device, as many in each direction
  bool follows = false;   // nothing but updates stands between the one before and this one
  bool ends_run = false;  // and it is the last of such, with other ops of the segment behind it
  std::vector<int64_t> state_bytes = {};  // of each state, `bytes` together
};

// The updates whose states the pass offload_states moves, in the order of their positions.
std::vector<MovedUpdate> find_moved_updates(const Graph& graph);

// What a step leaves beside its ops, by position: the bytes that lie on the device and how long each op
// takes.
struct StepRoom {
  std::vector<int64_t> live_bytes = {};
  std::vector<double> op_ms = {};
  int64_t most_bytes = 0;        // that may lie there at any position, copies included
  double link_bytes_per_ms = 0;  // in one direction while others go in the other
  uint32_t first = 0;            // nothing is brought before the op at this position
  bool carries = false;          // states may go back beside the forward pass of the next step
};

// The copies of an update to the device start before the op at `before`, once those to the host of the first
// `ended` updates have ended.
struct Turn {
  uint32_t before = 0;
  size_t ended = 0;
  friend bool operator==(const Turn&, const Turn&) = default;
};

// The op at `before`, in the forward pass, waits until the first `ended` copies to the host of that segment
// have ended.
struct Release {
  uint32_t before = 0;
  size_t ended = 0;
  friend bool operator==(const Release&, const Release&) = default;
};

// A step's traffic. The states of the last `carried` updates stay on the device until the next step, at whose
// start all of them begin to go back, the last update's first: what came last goes first, so that their
// places can lie one on the other. Where updates run in the forward pass, those of the first `early` ones
// have come in the step before, behind its forward pass, the first update's last.
struct StateTurns {
  std::vector<Turn> turns = {};  // of each update
  size_t carried = 0;
  size_t early = 0;
  std::vector<Release> releases = {};  // in the forward pass
  friend bool operator==(const StateTurns&, const StateTurns&) = default;
};

// The updates in the order in which their copies to the device stand in a program.
std::vector<size_t> order_of_copies(const StateTurns& turns);

// So many copies to the host the copies of update `k` to the device wait for, counted from the start of the
// update's segment.
size_t ended_in_segment(std::span<const MovedUpdate> updates, std::span<const Turn> turns, size_t k);

// One update ahead, two updates' copies at a time, and none ahead over ops that are no updates.
std::vector<Turn> tight_turns(std::span<const MovedUpdate> updates);

// As early as there is room, with as many copies under way as fit. Follows the ops and both directions of the
// link in time: the bytes of what has gone back by then are taken again, and where nothing stands between two
// updates it is waited for. Ends of segments wait for copies, so nothing is brought in an earlier segment
// than its update's that would not be there when that ends. Of several numbers of carried updates the one
// with which a step is the shortest; carried states are waited for where the forward pass needs their room.
// Requires: updates in the order of their positions.
StateTurns early_turns(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                       const StepRoom& room);

// late_turns.cc: the same where all updates run in the forward pass (updates_at_use.cc). As many as have room
// beside the gradients come before it begins. The others come beside it, each as soon as there is room, with
// as much under way as does not make the ops wait longer; ops wait where activations need bytes that are
// still going back. Nothing where there is no room for that.
std::optional<StateTurns> late_turns(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                                     const StepRoom& room);

}  // namespace plimsoll
