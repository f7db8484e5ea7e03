// Divides a range of bytes into contiguous shares, one per rank. It is used for work that any rank could do, such as writing data
// that all ranks have. A value; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

struct ByteShares {
  // Shares begin at multiples of this number of bytes, so that no tensor element is divided between two ranks.
  static constexpr int64_t kBlock = 64;

  int64_t bytes = 0;
  int64_t ranks = 1;

  // Returns the size of the largest share.
  int64_t largest() const {
    const int64_t least = (bytes + ranks - 1) / ranks;
    return std::min(bytes, (least + kBlock - 1) / kBlock * kBlock);
  }
  // Return the first byte of a rank's share, and the end of the share. The last shares may be smaller than the others, or empty.
  int64_t begin_of(int64_t rank) const { return std::min(bytes, rank * largest()); }
  int64_t end_of(int64_t rank) const { return begin_of(rank + 1); }
};

}  // namespace plimsoll
