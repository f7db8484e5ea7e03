// A quick preview, for searches, of what the pass offload_states makes of a program with given transfers: the
// buffers that ProgramBuffers would find in that graph, and when the copies that find_copies() would find
// end. It is made of numbers alone, for building a graph for each try would be too slow. A plan itself is
// made from the graph; a test checks that both agree. Thread-safe once it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/passes/transfer_schedule.h"
#include "plan/compile/copy_waits.h"
#include "plan/compile/plan.h"

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

  // The program with these transfers. Requires: one transfer for each of updates(); deferred states only where nothing
  // else is copied beside the forward pass.
  StateSchedule with(const TransferSchedule& transfers) const;

  // The program without the copies of its states: its updates; and for each op its segment, its time, and the
  // bytes that are live on the device.
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
