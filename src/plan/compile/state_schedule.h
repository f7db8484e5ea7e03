// Predicts the buffers and the timing of copies in the program that the pass offload_states would make with a given transfer schedule. A
// search for a good schedule needs this for many schedules. The results are computed from numbers alone, because building a graph for
// each attempt would be too slow. The plan itself is made from the graph, with ProgramBuffers and find_queued_ops(); a test checks that
// the predicted buffers and copies agree with those of the graph. Thread-safe after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/passes/saved_transfers.h"
#include "graph/passes/transfer_schedule.h"
#include "plan/compile/op_times.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The predicted program: times of ops, copies and buffers. Positions are those of the program with copies.
struct StateSchedule {
  std::vector<double> op_ms = {};          // times of ops; entries of copies are ignored
  std::vector<TimedTransfer> copies = {};  // copies in the order of their positions
  // buffers on the device; their fields root, op and purpose are not set
  std::vector<TransientBuffer> buffers = {};
  uint32_t cut_at = 0;  // position of the cut at which the layout of the buffers starts
};

class StateSchedules {
 public:
  // `graph` is the program to which the pass offload_states would be applied. Errors: kUsage if no kernel computes an op.
  StateSchedules(const Graph& graph, const PlanRequest& request);

  // Predicts the times, copies and buffers of the program with this transfer schedule. Requires: the schedule has one entry per element of
  // updates(). If it defers copies to the next run, nothing else is copied during the forward pass.
  StateSchedule with(const TransferSchedule& transfers) const;

  // The program without copies of states: its updates, and the segment (forward, backward, optimizer), time and live bytes of each op.
  std::span<const MovedUpdate> updates() const { return updates_; }
  std::span<const Segment> segments() const { return segments_; }
  const std::vector<double>& op_ms() const { return op_ms_; }
  std::vector<int64_t> live_bytes() const;

 private:
  class Positions;

  KernelDevice device_;
  bool on_disk_;  // true if the states are on a disk, false if they are in host memory
  std::vector<MovedUpdate> updates_;
  std::vector<Segment> segments_;      // forward, backward or optimizer segment of each op
  std::vector<uint32_t> segment_end_;  // for each op, the position of the first op of the next segment
  std::vector<double> op_ms_;
  std::vector<TimedTransfer> copies_;
  std::vector<TransientBuffer> buffers_;
  std::vector<uint32_t> held_until_;  // for each buffer, the last position at which a copy that uses it ends
};

// Computes how much GPU memory a training step leaves unused (the headroom), into which optimizer states can be transferred from the host
// early.

// The decision where updates run, and the headroom: the memory that the ops of a program with this decision leave unused, into which
// optimizer states fit.
struct UpdateOrder {
  UpdatePlace place = {};
  MemoryHeadroom room = {};
};

// Decides where updates run, in their own segment or in the next step's forward pass, and how early their states may be transferred to the
// device. The returned headroom consists of the live bytes and the time of each op of `graph`, which is the program before the passes
// updates_at_use and offload_states, and of the largest number of bytes that may be live. That limit is the peak of the plan in which
// states are transferred as late as possible, plus a twentieth (or OffloadOptions::extra_state_bytes, if that is more), minus the bytes
// that the layout cannot use. The function considers both decisions and returns the one with the shorter estimated step. Returns nothing if
// no update transfers states. Cost: several layouts of the program.
std::optional<UpdateOrder> find_update_order(const Graph& graph, const PlanRequest& request);

// Computes how much device memory a training step leaves unused (the headroom), in which activations can stay that --offload_activations
// would otherwise transfer to the host.

// Starts from the plan that needs the least memory: it transfers to the host every activation that can be transferred, and transfers it
// back as late as possible. Below the peak of that plan there is unused memory, in which some activations can stay on the device, or into
// which they can be transferred back earlier, without a larger arena. Returns as much of this headroom as the layout can really use.
// Returns an empty headroom if the layout can use none or the step is not estimated to become shorter. The total memory of a GPU may grow
// only by the memory of CUDA graphs: if all activations of a segment stay on the device, the segment can be captured as a CUDA graph.
// `graph` is the program to which the pass offload_activations would be applied. Cost: several layouts of the program.
ActivationHeadroom find_activation_headroom(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
