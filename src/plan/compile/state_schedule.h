// For searches: predicts the buffers and the ends of copies of the program that the pass offload_states would make with a given transfer
// schedule. They are computed from numbers alone, because building a graph for each attempt would be too slow. The plan itself is made from
// the graph, with ProgramBuffers and find_queued_ops(); a test checks that both agree. Thread-safe after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/passes/saved_transfers.h"
#include "graph/passes/transfer_schedule.h"
#include "plan/compile/op_times.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// Times, copies and buffers by positions of the program with copies.
struct StateSchedule {
  std::vector<double> op_ms = {};             // entries of copies are ignored
  std::vector<TimedTransfer> copies = {};     // copies in the order of their positions
  std::vector<TransientBuffer> buffers = {};  // buffers on the device, without roots, ops and purposes
  uint32_t cut_at = 0;                        // the cut of the buffers' layout
};

class StateSchedules {
 public:
  // `graph` is the program before the pass offload_states. Errors: kUsage if no kernel computes an op.
  StateSchedules(const Graph& graph, const PlanRequest& request);

  // Returns the times, copies and buffers of the program with this transfer schedule. Requires: one entry per element
  // of updates(); deferred states only if nothing else is copied during the forward pass.
  StateSchedule with(const TransferSchedule& transfers) const;

  // The program without the copies of its states: its updates, and for each op its segment, its time, and
  // the live bytes on the device.
  std::span<const MovedUpdate> updates() const { return updates_; }
  std::span<const Segment> segments() const { return segments_; }
  const std::vector<double>& op_ms() const { return op_ms_; }
  std::vector<int64_t> live_bytes() const;

 private:
  class Positions;

  KernelDevice device_;
  bool on_disk_;  // the states are on a disk, not on the host
  std::vector<MovedUpdate> updates_;
  std::vector<Segment> segments_;      // the segment of each op
  std::vector<uint32_t> segment_end_;  // per op, the first op of the next segment
  std::vector<double> op_ms_;
  std::vector<TimedTransfer> copies_;
  std::vector<TransientBuffer> buffers_;
  std::vector<uint32_t> held_until_;  // per buffer, the last end of the copies that use it
};

// Computes how much GPU memory a training step leaves free for optimizer states that are transferred from
// the host.

// The decision where updates run, and the headroom that the ops then leave for the optimizer states.
struct UpdateOrder {
  UpdatePlace place = {};
  MemoryHeadroom room = {};
};

// Decides where updates run, in their own segment or in the next step's forward pass, and how early their states may
// be transferred to the device. The headroom consists of the live bytes at each op of `graph`, which is the program
// before the passes updates_at_use and offload_states, the time of each op, and the largest number of bytes that may
// be live. That limit is the peak of the plan in which states are transferred as late as possible, plus a twentieth,
// minus the bytes that the layout cannot use. The function considers both decisions and returns the one with the shorter estimated step.
// Returns nothing if no update transfers states. Cost: several layouts of the program.
std::optional<UpdateOrder> find_update_order(const Graph& graph, const PlanRequest& request);

// Computes how much device memory a training step leaves free for activations that --offload_activations
// would transfer to the host.

// The plan that needs the least memory transfers every activation that can be transferred, and returns each
// as late as possible. Below the peak of that plan there is memory in which some activations can stay, or
// be transferred earlier and for longer, without a larger arena. Returns as much of this headroom as the
// layout can really use, or an empty headroom if it can use none or the step is not estimated to become
// shorter. The total may only grow by the memory of CUDA graphs on a GPU: if nothing is transferred, segments can be captured. `graph` is
// the program before the pass offload_activations. Cost: several layouts of the program.
ActivationHeadroom find_activation_headroom(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
