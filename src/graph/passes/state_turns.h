// When the states of each update are brought from the host's memory and when their bytes on the device are
// free again: what offload_states.cc gives the ops for. Pure functions of numbers; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
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
};

// What a step leaves beside its ops, by position: the bytes that lie on the device and how long each op
// takes.
struct StepRoom {
  std::vector<int64_t> live_bytes = {};
  std::vector<double> op_ms = {};
  int64_t most_bytes = 0;        // that may lie there at any position, copies included
  double link_bytes_per_ms = 0;  // in one direction while others go in the other
  uint32_t first = 0;            // nothing is brought before the op at this position
};

// The copies of an update to the device start before the op at `before`, once those to the host of the first
// `ended` updates have ended.
struct Turn {
  uint32_t before = 0;
  size_t ended = 0;
};

// One update ahead, two updates' copies at a time, and none ahead over ops that are no updates.
std::vector<Turn> tight_turns(std::span<const MovedUpdate> updates);

// As early as there is room, with as many copies under way as fit. Follows the ops and both directions of the
// link in time: the bytes of what has gone back by then are taken again, and where nothing stands between two
// updates it is waited for. Ends of segments wait for copies, so nothing is brought in an earlier segment
// than its update's that would not be there when that ends. Requires: updates in the order of their
// positions.
std::vector<Turn> early_turns(std::span<const MovedUpdate> updates, std::span<const Segment> segments,
                              const StepRoom& room);

}  // namespace plimsoll
