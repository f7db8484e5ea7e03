// Assigns an offset to every buffer (the problem of offline dynamic storage allocation). It uses no graph: a buffer is described by its
// size and the positions between which it is live. A pure function; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// A buffer that is live at the positions from `first` to `last`, both included.
struct LiveBuffer {
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct Layout {
  // offset of each buffer, in the order of the input; multiples of the alignment
  std::vector<int64_t> offsets;
  int64_t bytes = 0;              // total size: the end of the highest buffer
  int64_t lower_bound_bytes = 0;  // largest sum of live bytes at one position, below which no layout can be
};

// Assigns offsets so that buffers which are live at the same time never overlap. Sizes are rounded up to `alignment`. The function places
// the buffers on a skyline (skyline.h) in several orders. If no result is within 0.1 % of the lower bound, it improves the orders: buffers
// that were placed too high move to the front. It returns the smallest result, and stops as soon as a result is close enough to the lower
// bound, so that most cases take only one placement. Deterministic: it counts its attempts and reads no clock. Cost: O(n^2) per placement:
// about 0.13 ms for the 1210 buffers of BERT-large. If no order comes close to the lower bound, the search takes at most 20 times as long.
// Requires: alignment is a power of two, sizes are not negative, first <= last.
//
// `hanging` contains, for each position, the bytes that other buffers occupy at the top of the result; empty means none. The lower bound
// includes these bytes. Requires: `hanging` covers every position of the buffers; its values first fall and then rise, in multiples of the
// alignment.
//
// `enough_bytes`: the search also ends at a result of at most this size. Such a result may be larger than the one that the complete search
// would find.
Layout assign_offsets(std::span<const LiveBuffer> buffers, int64_t alignment,
                      std::span<const int64_t> hanging = {}, int64_t enough_bytes = 0);

// Gives each buffer its own bytes, even if buffers are never live at the same time. Layout::lower_bound_bytes is the same as in
// assign_offsets().
Layout separate_offsets(std::span<const LiveBuffer> buffers, int64_t alignment);

}  // namespace plimsoll
