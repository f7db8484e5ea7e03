// Finds the positions between which the bytes of each transient value are in use. Values that overwrite one
// another in the same bytes (versions of one value) share one buffer.
//
// A buffer is live from its producer to the last op during which it may be read or written: its last reader or, if a copy
// of it runs at the same time as other ops, the last op before the one that waits for this copy (analysis.h). Positions
// count the ops in the order of the schedule. An op starts when all ops before it have ended, except such copies. If the
// intervals of two buffers do not overlap, one is therefore used only after the other, and they may share bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/analysis/analysis.h"
#include "graph/ir/graph.h"

namespace plimsoll {

// One transient or deferred buffer: the oldest version of a value (the root) and all newer versions in the same bytes. A deferred buffer is
// written in one run and read in the next. It is live from the first op that writes the content of the current run to the end of the run,
// and in the next run from the start to the last op that reads or changes this content. Therefore `first` is greater than `last`.
struct LiveRange {
  ValueId root = kNoValue;
  int64_t bytes = 0;   // bytes of the largest version of the value, for batches of the given size
  uint32_t first = 0;  // position of the first op that writes the buffer
  uint32_t last = 0;   // position of the last op during which the buffer may be in use
};

// A live range for batches of any size: the positions depend on the graph alone, and the bytes follow from the bucket, which states the
// sizes of a batch.
struct Lifetime {
  ValueId root = kNoValue;
  uint32_t first = 0;
  uint32_t last = 0;
  // The versions of a value in this buffer can have different types. This list has one version of
  // each type; the largest determines the buffer's size.
  ValueIds sizes = {};
};

// Returns every buffer of a program that is used within one run (transient) or passed from one run to the next (deferred),
// in the order in which ops touch them. Requires: a valid graph. `queued` must be the result of find_queued_ops(graph).
std::vector<Lifetime> find_lifetimes(const Graph& graph);
std::vector<Lifetime> find_lifetimes(const Graph& graph, std::span<const QueuedOp> queued);
LiveRange live_range(const Graph& graph, const Lifetime& lifetime, const Bucket& bucket);
std::vector<LiveRange> find_live_ranges(const Graph& graph, const Bucket& bucket);

// Returns the oldest version of a value: the one that owns the bytes.
ValueId root_of(const Graph& graph, ValueId id);

// Returns the bytes that are live at each position; `alignment` rounds every buffer up.
std::vector<int64_t> live_bytes(const std::vector<LiveRange>& ranges, size_t num_positions,
                                int64_t alignment);
// Returns the most bytes that are live at any op, with every buffer rounded up to a multiple of 64. Scratch memory of kernels is not
// part of it.
int64_t peak_bytes(const Graph& graph, const Bucket& bucket);
// Puts the ops into the order `order` (Graph::reorder_ops()) if in this order fewer than `limit` bytes are live at every op, for batches of
// the size `bucket`. Otherwise leaves the graph unchanged.
void reorder_if_peak_is_below(Graph& graph, std::span<const uint32_t> order, const Bucket& bucket,
                              int64_t limit);

}  // namespace plimsoll
