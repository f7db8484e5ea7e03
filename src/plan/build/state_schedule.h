// A program with the copies of its states at given turns, in numbers: the buffers that ProgramBuffers would
// find in the graph that the pass offload_states makes, and when the copies of find_copies() end. For
// searches, to which a graph for each try would be too slow. What it is not: the truth about a plan, which
// stands on the graph; a test holds the two together. Thread-safe once it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/passes/state_turns.h"
#include "plan/build/copy_waits.h"
#include "plan/build/plan.h"

namespace plimsoll {

// By positions of the program with copies.
struct StateSchedule {
  std::vector<double> op_ms = {};             // what it says of copies is not read
  std::vector<TimedCopy> copies = {};         // in the order of their positions
  std::vector<TransientBuffer> buffers = {};  // on the device; without roots, ops and purposes
  uint32_t cut_at = 0;                        // of their layout
};

class StateSchedules {
 public:
  // `graph` is as before the pass offload_states. Errors: kUsage where no kernel computes an op.
  StateSchedules(const Graph& graph, const PlanRequest& request);

  // Requires: turns of updates(), carried ones only where nothing else is copied beside the forward pass.
  StateSchedule with(const StateTurns& turns) const;

  // Of the program without the copies:
  std::span<const MovedUpdate> updates() const { return updates_; }
  std::span<const Segment> segments() const { return segments_; }
  const std::vector<double>& op_ms() const { return op_ms_; }
  std::vector<int64_t> live_bytes() const;

 private:
  class Positions;

  KernelDevice device_;
  std::vector<MovedUpdate> updates_;
  std::vector<Segment> segments_;      // of each op
  std::vector<uint32_t> segment_end_;  // of each op, the first op of the next segment
  std::vector<double> op_ms_;
  std::vector<TimedCopy> copies_;
  std::vector<TransientBuffer> buffers_;
  std::vector<uint32_t> held_until_;  // of each buffer, the last end of the copies that hold it
};

}  // namespace plimsoll
