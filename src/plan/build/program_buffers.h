// The buffers of one program that share a region, for buckets of one size after another, and places for them:
// lifetimes and purposes are found once. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/analysis/liveness.h"
#include "plan/build/plan.h"

namespace plimsoll {

class ProgramBuffers {
 public:
  explicit ProgramBuffers(const Graph& graph);

  struct Lists {
    std::vector<TransientBuffer> on_device = {};
    std::vector<TransientBuffer> on_host = {};
  };
  // Without places: first those of values in the order in which ops touch them, then the ops'
  // scratch, in their order. Requires: the graph is the constructor's.
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

// Gives the buffers of one space their offsets from the start of its transient region. Those that are live on
// both sides of the cut, which is before the op at `cut_at`, hang from the region's top. Where a run leaves
// gradients it is behind the forward pass, over which what is saved grows and shrinks like a stack while they
// come and go below; else between two runs, where carried values do. Carried ones (first > last) become two
// each, for either part of their lives; the second parts stand at the end of the list. The search for offsets
// ends with the first layout of at most `enough_bytes`. The layout's own offsets are those of what does not
// hang.
Layout place_buffers(std::vector<TransientBuffer>& buffers, uint32_t num_positions,
                     const PlanRequest& request, uint32_t cut_at, int64_t enough_bytes = 0);
// Where the cut is in a program.
uint32_t layout_cut(const Graph& graph);

}  // namespace plimsoll
