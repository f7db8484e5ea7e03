// A tensor that consists of one slice per rank. Thread-safe: values only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/view.h"

namespace plimsoll {

// Slice r begins at element r * slice and has `slice` elements, except that the last slices end with the tensor or are empty.
struct DividedTensor {
  View data;
  int64_t count = 0;   // elements
  int64_t slice = 0;   // number of elements of the slice of rank 0
  ConstView own = {};  // the slice of this rank, if it is not in `data`; for all_gather only

  int64_t first_of(int64_t rank) const { return std::min(count, rank * slice); }
  int64_t count_of(int64_t rank) const { return std::min(slice, count - first_of(rank)); }
};

}  // namespace plimsoll
