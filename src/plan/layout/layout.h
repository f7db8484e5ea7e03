// An address for every buffer: offline dynamic storage allocation. A pure function; thread-safe. It knows no
// graph: a buffer is a size and the positions between which it is live.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// A buffer that is live at the positions first..last, both included.
struct LiveBuffer {
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct Layout {
  std::vector<int64_t> offsets;  // of each buffer, in the order given; multiples of the alignment
  int64_t bytes = 0;             // the end of the highest buffer
  int64_t lower_bound_bytes =
      0;  // the largest sum of live bytes at one position: no layout of this schedule is smaller
};

// Buffers that are live together never overlap. Sizes are rounded up to `alignment`. Tries several orders of
// placement and keeps the smallest result; stops early within 0.1 % of the lower bound. Deterministic. Cost:
// O(n^2) in the buffers. Requires: alignment is a power of two, sizes are not negative.
Layout assign_offsets(std::span<const LiveBuffer> buffers, int64_t alignment);

}  // namespace plimsoll
