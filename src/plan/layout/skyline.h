// One layout by filling up from below: the tool that the search for offsets uses again and again. Pure;
// thread-safe.
//
// Seen as a picture, a buffer is a rectangle: as wide as the positions at which it is live, as high as its
// bytes. The skyline is the height reached so far at each position. Always the lowest valley of the skyline
// is filled next, by the first buffer of the given order that is live only inside the valley; where no buffer
// is, the valley is lost up to the lower of its sides. Lifetimes of forward and backward passes nest, and a
// wide rectangle at the bottom of a valley leaves a whole valley for what nests in it: that is why the lost
// bytes are few.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/layout/layout.h"

namespace plimsoll {

struct Placement {
  std::vector<int64_t> offsets;  // of each buffer
  int64_t bytes = 0;             // the end of the highest buffer
};

// Places every buffer at a height where the skyline is level over all its positions, so no two that are live
// together overlap. Offsets are sums of sizes: where sizes are multiples of an alignment, so are they. Ties
// go to the earliest positions. `floor`: heights that the skyline starts with, 0 behind its end; the bytes of
// a placement reach as high. Requires: `order` holds each index of `buffers` once. Cost: O(n^2) at the most,
// about 0.13 ms for 1200 buffers.
Placement fill_skyline(std::span<const LiveBuffer> buffers, std::span<const uint32_t> order,
                       std::span<const int64_t> floor = {});

// The same where a buffer is to end by `most_bytes` less what `hanging` takes at each of its positions, 0
// behind its end. Nothing as soon as it is known that one will not, which may be long before it is placed; a
// placement may be one in which one does not. Cost: less than the above where nothing comes of it.
std::optional<Placement> fill_skyline_within(int64_t most_bytes, std::span<const LiveBuffer> buffers,
                                             std::span<const uint32_t> order,
                                             std::span<const int64_t> floor = {},
                                             std::span<const int64_t> hanging = {});

}  // namespace plimsoll
