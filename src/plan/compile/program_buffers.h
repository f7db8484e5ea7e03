// The transient buffers of one program, which share a region, and the search for their offsets. Lifetimes and
// purposes are found once and hold for every bucket. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  // The buffers in this bucket, without offsets: first those of values, in the order in which ops first touch
  // them, then scratch, in the order of the ops. Requires: the graph is the constructor's.
  Lists of(const Graph& graph, const Bucket& bucket, std::span<const int64_t> scratch_bytes,
           KernelDevice device) const;

 private:
  struct Buffer {
    Lifetime lifetime;
    Purpose purpose = Purpose::kTemporary;
    bool is_on_host = false;
  };
  std::vector<Buffer> buffers_;
};

// Gives the buffers of one space their offsets from the start of its transient region. The cut is the moment
// before the op at `cut_at`. Buffers that are live across the cut hang from the region's top, one below the
// other: they come and go like a stack, while all others get offsets from the bottom. Where a run leaves
// gradients for the next one, the cut is behind the forward pass, and what is saved for the backward pass
// hangs. Else the cut is between two runs, and deferred values hang. A deferred buffer (first > last) becomes
// two, one for its life at the end of a run and one for that at the start of the next; the second ones are
// appended to the list. The search ends with the first layout of at most `enough_bytes`. The layout that is
// returned has the offsets of buffers that do not hang.
Layout place_buffers(std::vector<TransientBuffer>& buffers, uint32_t num_positions,
                     const PlanRequest& request, uint32_t cut_at, int64_t enough_bytes = 0);
// The position of the cut in a program, for place_buffers().
uint32_t layout_cut(const Graph& graph);

}  // namespace plimsoll
