// Computes one layout by placing buffers from the bottom; the search for offsets calls it many times. Pure;
// thread-safe.
//
// Seen as a picture, a buffer is a rectangle: as wide as the positions at which it is live, and as high as its bytes. The skyline is the
// height at each position that the buffers placed so far reach. The next buffer is always placed in the lowest valley of the skyline: it is
// the first one in the given order that is live only inside the valley. If there is none, the valley is raised to the lower of its sides,
// and its bytes are lost. Few bytes are lost, because the lifetimes of forward and backward passes are nested: on top of a wide rectangle
// there is a valley again for the rectangles whose lifetimes are nested in its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/layout/layout.h"

namespace plimsoll {

struct Placement {
  std::vector<int64_t> offsets;  // offset of each buffer
  int64_t bytes = 0;             // total size: the end of the highest buffer
};

// Places every buffer where the skyline has the same height at all positions of the buffer, so that no two buffers which are live at the
// same time overlap. Offsets are sums of sizes: if all sizes are multiples of an alignment, so are the offsets. Of several lowest
// valleys, the one with the earliest positions is filled first. `floor` contains the heights with which the skyline starts; positions
// after its end start at 0. The size of a placement is at least the largest of these heights. Requires: `order` contains each index of
// `buffers` once. Cost: at most O(n^2), about 0.13 ms for 1200 buffers.
Placement fill_skyline(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order,
                       std::span<const int64_t> floor = {});

// Places the buffers as fill_skyline() does, with a limit: at each position where a buffer is live, it has to end below `most_bytes` minus
// the value of `hanging` there (0 after the end of `hanging`). Returns nothing as soon as it is certain that some buffer will exceed the
// limit, which may be long before that buffer is placed. The check is not complete: in a result, a buffer may exceed the limit. Cost: less
// than fill_skyline() if it returns nothing.
std::optional<Placement> fill_skyline_within(int64_t most_bytes, std::span<const LiveBuffer> buffers,
                                             std::span<const uint32_t> order,
                                             std::span<const int64_t> floor = {},
                                             std::span<const int64_t> hanging = {});

}  // namespace plimsoll
