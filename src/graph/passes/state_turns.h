// When the states of each update are copied from the host's memory to the device, when they go back, and when
// their bytes on the device are free again: the timetable for the copies that offload_states.cc inserts. Pure
// functions of numbers; thread-safe.
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
  int64_t bytes = 0;      // of its states: what is copied in each direction
  bool follows = false;   // only updates, and gradients by rows for them, stand between the one before and it
  bool ends_run = false;  // other ops stand between it and the next one, which is of the same segment
  std::vector<int64_t> state_bytes = {};  // of each state; they add up to `bytes`
};

// The updates whose states the pass offload_states moves, in the order of their positions.
std::vector<MovedUpdate> find_moved_updates(const Graph& graph);

// How much memory and time a step leaves for copies of states.
struct StepRoom {
  std::vector<int64_t> live_bytes = {};  // on the device, at each position, without the states
  std::vector<double> op_ms = {};        // how long each op takes
  int64_t most_bytes = 0;                // that may lie on the device at any position, states included
  double link_bytes_per_ms = 0;          // in one direction while the other is busy too
  uint32_t first = 0;                    // nothing is brought before the op at this position
  bool carries = false;  // whether states may go back in the next step, beside its forward pass
};

// When the states of one update come to the device: the copies start before the op at `before`, and wait
// until the states of the first `ended` updates are back on the host, whose bytes they may take.
struct Turn {
  uint32_t before = 0;
  size_t ended = 0;
  friend bool operator==(const Turn&, const Turn&) = default;
};

// A wait of the forward pass for room: the op at `before` starts when the first `ended` copies to the host in
// this segment have ended.
struct Release {
  uint32_t before = 0;
  size_t ended = 0;
  friend bool operator==(const Release&, const Release&) = default;
};

// The timetable of a step.
struct StateTurns {
  std::vector<Turn> turns = {};  // one for each update
  // The states of the last `carried` updates stay on the device when the step ends, and go back from the
  // start of the next step on, those of the last update first: what came last goes first, so that their
  // places can lie one above the other.
  size_t carried = 0;
  // Only where updates run in the forward pass: the states of the first `early` updates come already in the
  // step before, behind its forward pass, those of the first update last.
  size_t early = 0;
  std::vector<Release> releases = {};
  friend bool operator==(const StateTurns&, const StateTurns&) = default;
};

// The numbers of the updates in the order in which their copies to the device stand in the program.
std::vector<size_t> order_of_copies(const StateTurns& turns);

// Turn::ended of update `k`, counted from the start of the update's segment instead of from that of the step:
// how many updates of this segment must have their states back on the host before those of `k` come.
size_t ended_in_segment(std::span<const MovedUpdate> updates, std::span<const Turn> turns, size_t k);

// The timetable that takes the fewest bytes: states come one update ahead, so that those of two updates are
// on the device at a time. Where other ops stand between two updates, they come only behind those ops.
std::vector<Turn> tight_turns(std::span<const MovedUpdate> updates);

// The timetable that brings states as early as there is room, with as many under way as fit. It simulates the
// ops and both directions of the link: states take the bytes of others that are back on the host by then, and
// between two updates with no other op in between they wait for such bytes. The end of a segment waits for
// all copies, so states come in an earlier segment than their update's only if they arrive before that ends.
// If room.carries, several numbers of carried updates are tried, and the one with the shortest step is taken;
// the forward pass then waits (releases) where it needs the bytes of states that are still going back. Where
// this is no faster than tight_turns(), the answer is tight_turns(). Requires: updates in the order of their
// positions.
StateTurns early_turns(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                       const StepRoom& room);

// late_turns.cc: the timetable where all updates run in the forward pass (updates_at_use.cc). The states of
// as many updates as have room beside the gradients come before the forward pass begins (early). The others
// come during it, each as soon as there is room, unless ops would wait longer for that; ops wait where
// activations need the bytes of states that are still going back. Returns nothing where there is not room
// enough.
std::optional<StateTurns> late_turns(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                                     const StepRoom& room);

}  // namespace plimsoll
