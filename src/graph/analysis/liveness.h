// When the bytes of each transient value are in use. Values that are versions of one another share one
// buffer.
//
// A buffer is live from the position of its producer up to the last op that may still touch it: the last
// reader in the list, or the op before the one that waits for a copy of it (copies.h). The positions are of
// the schedule; an op starts when those before it are done, copies under way excepted, whose operands stay
// live until the wait. So two buffers whose intervals do not meet are ordered by happens-before and may share
// bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// One transient or deferred buffer: the root value (no version_of) and all its versions. A deferred one is live
// from the op that makes it anew, reading nothing of what the run before left in it, to the end of the run,
// and in the next run from its start to the last op that reads or changes what was left: its first position
// lies behind its last.
struct LiveRange {
  ValueId root = kNoValue;
  int64_t bytes = 0;   // in the given bucket, the largest of its versions
  uint32_t first = 0;  // position of the op that writes it first
  uint32_t last = 0;   // position of the last op while which it may be read or written
};

// The same for buckets of any size: the positions are those of the graph alone.
struct Lifetime {
  ValueId root = kNoValue;
  uint32_t first = 0;
  uint32_t last = 0;
  std::vector<ValueId> sizes =
      {};  // of its versions one of each type: the largest of them in a bucket counts
};

// Every transient and deferred buffer of a program in the order in which ops touch them. Requires: the graph
// verifies.
std::vector<Lifetime> find_lifetimes(const Graph& graph);
LiveRange live_range(const Graph& graph, const Lifetime& lifetime, const Bucket& bucket);
std::vector<LiveRange> find_live_ranges(const Graph& graph, const Bucket& bucket);

// The value whose bytes `id` occupies in the end.
ValueId root_of(const Graph& graph, ValueId id);

// Bytes live at each position; `alignment` rounds every buffer up.
std::vector<int64_t> live_bytes(const std::vector<LiveRange>& ranges, size_t num_positions,
                                int64_t alignment);

}  // namespace plimsoll
