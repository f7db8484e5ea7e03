// The transfer schedule of optimizer states: when the states of each update are copied from the host's memory or a disk to
// the device, when they are copied back, and when their bytes on the device are free again. offload_states_pass.cc inserts
// the copies accordingly. Pure functions of numbers; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// An update whose optimizer states are stored in host memory or on a disk.
struct MovedUpdate {
  uint32_t op = 0;  // position of the update in the program
  Segment segment = Segment::kOptimizer;
  int64_t bytes = 0;  // bytes of all states of the update, copied once in each direction
  // True if all ops between the previous update and this one are updates, or compute some rows of a gradient for an update. Other ops would
  // need memory in addition to states that are copied early.
  bool follows = false;
  bool ends_run = false;  // true if other ops run between this update and the next one of its segment
  std::vector<int64_t> state_bytes = {};  // bytes of each state; they add up to `bytes`
};

// Returns the updates whose states the pass offload_states moves, in the order of their positions.
std::vector<MovedUpdate> find_moved_updates(const Graph& graph);

// The memory and the time that a step leaves for copies of states.
struct MemoryHeadroom {
  std::vector<int64_t> live_bytes = {};  // live bytes on the device at each position, without the states
  std::vector<double> op_ms = {};        // milliseconds of each op
  int64_t most_bytes = 0;        // limit for the live bytes on the device at any position, with the states
  double link_bytes_per_ms = 0;  // bytes per ms in one direction while the other direction is busy too
  // The rates, in bytes per ms, of copies in one direction while the other direction is idle: of copies to the device before the first
  // update, and of copies to the host during the forward pass. 0 means link_bytes_per_ms. On a link to host memory, copies in one direction
  // are only slightly faster if the other direction is idle, but a disk that only reads or only writes is twice as fast as one that does
  // both at once.
  double in_alone_bytes_per_ms = 0;
  double out_alone_bytes_per_ms = 0;
  uint32_t first = 0;      // no copy to the device starts before the op at this position
  bool may_defer = false;  // true if states may be copied back in the forward pass of the next step
  bool is_disk = false;    // true if the states are stored on a disk, not in host memory
};

// The transfer of the states of one update to the device: the copies start before the op at `before`, and wait until the states of the
// first `ended` updates are back on the host, because their destination may be the memory of those states.
struct StateTransfer {
  uint32_t before = 0;
  size_t ended = 0;
  friend bool operator==(const StateTransfer&, const StateTransfer&) = default;
};

// A point at which the forward pass waits for free memory: the op at position `before` starts only when the first `ended` copies to the
// host that run during the forward pass have ended.
struct Release {
  uint32_t before = 0;
  size_t ended = 0;
  friend bool operator==(const Release&, const Release&) = default;
};

// The copies of one step.
struct TransferSchedule {
  std::vector<StateTransfer> transfers = {};  // one element per update
  // The states of the last `deferred` updates stay on the device when the step ends. The next step copies these states back from its start
  // on, beginning with the last update. In this order, memory is freed in the reverse order of its allocation, so that the memory plan can
  // place the buffers like a stack.
  size_t deferred = 0;
  // If updates run in the forward pass: the states of the first `prefetched` updates are copied to the device at the end of the previous
  // step, after its forward pass; the states of the first update are copied last.
  size_t prefetched = 0;
  std::vector<Release> releases = {};
  friend bool operator==(const TransferSchedule&, const TransferSchedule&) = default;
};

// Returns the indices of the updates in the order in which the program copies their states to the device.
std::vector<size_t> order_of_copies(const TransferSchedule& transfers);

// Returns StateTransfer::ended of update `k`, counted from the start of the update's segment instead of the start of the step: the number
// of updates of this segment whose states must be back on the host before the states of update `k` are copied.
size_t ended_in_segment(std::span<const MovedUpdate> updates, std::span<const StateTransfer> transfers,
                        size_t k);

// Returns the schedule that needs the least memory: the states of an update are copied while the previous update runs, so the states of two
// updates are on the device at a time. If other ops separate two updates, the copies start only after these ops.
std::vector<StateTransfer> transfers_with_minimum_memory(std::span<const MovedUpdate> updates);

// Returns the schedule for states on a disk: while an update runs, the states of the next update are read and the states of the previous
// update are written, so the states of three updates are on the device at a time. If other ops separate two updates of a segment, the
// transfers run at the same time as these ops.
std::vector<StateTransfer> transfers_with_disk(std::span<const MovedUpdate> updates);

// Returns the schedule that is used if the free memory is not known: that of transfers_with_disk() if the states are on a disk, and
// otherwise that of transfers_with_minimum_memory().
std::vector<StateTransfer> late_transfers(std::span<const MovedUpdate> updates, bool is_disk);

// Returns the schedule that copies states as early as memory allows. Several copies may run at a time if their states fit into memory. The
// function simulates the ops and both directions of the link. States may be copied into memory from which other states have been copied
// back to the host; between two updates that directly follow each other, a copy waits until such memory is free. The end of a segment
// (forward pass, backward pass or optimizer) waits for all copies. The copies for an update may therefore start in an earlier segment only
// if they end within that segment. If room.may_defer, the function tries several numbers of deferred updates and returns the schedule with
// the shortest step; ops of the forward pass then wait until the bytes of states that are still being copied back are free
// (TransferSchedule::releases). If no schedule is faster than late_transfers(), the function returns late_transfers(). Requires: updates in
// the order of their positions.
TransferSchedule transfers_as_early_as_possible(std::span<const MovedUpdate> updates,
                                                std::span<const Segment> segments,
                                                const MemoryHeadroom& room);

// Defined in transfer_schedule_forward.cc. Returns the schedule for a step whose updates all run in the forward pass
// (updates_at_use_pass.cc). The states of as many updates as fit next to the gradients are prefetched. The states of the other updates are
// copied during the forward pass, each as soon as memory is free, unless ops would then wait longer. Ops wait if activations need the
// memory of states that are still being copied back. Returns nothing if there is not enough memory.
std::optional<TransferSchedule> transfers_for_forward_updates(std::span<const MovedUpdate> updates,
                                                              std::span<const Segment> segments,
                                                              const MemoryHeadroom& room);

}  // namespace plimsoll
