// Lists the transient buffers of one program, which share a region of the arena, and finds their offsets. Lifetimes and purposes are
// computed once and are valid for every bucket (batch size). Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class ProgramBuffers {
 public:
  explicit ProgramBuffers(const Graph& graph);

  struct Lists {
    std::vector<TransientBuffer> on_device = {};
    std::vector<TransientBuffer> on_host = {};
  };
  // Returns the buffers with their sizes for this bucket (batch size), without offsets: first the buffers of values, in the order in which
  // ops first use them, then scratch memory, in the order of the ops. Requires: `graph` is the graph that was passed to the constructor.
  Lists of(const Graph& graph, const Bucket& bucket, std::span<const int64_t> scratch_bytes,
           KernelDevice device) const;

  // Returns the ops of the graph that run on queues for copies or communication, as find_queued_ops() found them.
  std::span<const QueuedOp> queued_ops() const { return queued_; }

 private:
  struct Buffer {
    Lifetime lifetime;
    Purpose purpose = Purpose::kTemporary;
    bool is_on_host = false;
  };
  std::vector<QueuedOp> queued_;
  std::vector<Buffer> buffers_;
};

// Assigns offsets to the buffers in one memory space, counted from the start of its transient region. Positions are a cycle, because a
// program runs again and again; the layout starts at the cut, the moment before the op at `cut_at`. Buffers that are live before and after
// the cut are placed from the top of the region downwards, like a stack; all others are placed from the bottom. If one run leaves gradients
// for the next run, the cut is after the forward pass, and the values that are saved for the backward pass are at the top. Otherwise the
// cut is between two runs, and the values that one run leaves for the next are at the top.
//
// A buffer that is live across the end of a run (first > last) becomes two: one for the end of the run, and one for the start of the next
// run, which is appended to the list. The search ends at the first layout of at most `enough_bytes`. The returned layout contains the
// offsets of the buffers that are placed from the bottom.
Layout place_buffers(std::vector<TransientBuffer>& buffers, uint32_t num_positions,
                     const PlanRequest& request, uint32_t cut_at, int64_t enough_bytes = 0);
// Returns the position of the cut, at which the layout of a program starts (see place_buffers()).
uint32_t layout_cut(const Graph& graph);

}  // namespace plimsoll
