// A tensor that is divided into one slice per rank. Thread-safe: values only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/view.h"

namespace plimsoll {

// Describes how a tensor is divided. The slice of rank r begins at element r * slice and has `slice` elements. The last slices
// can be shorter or empty, because they end where the tensor ends.
struct DividedTensor {
  View data;
  int64_t count = 0;   // number of elements of the tensor
  int64_t slice = 0;   // number of elements per slice
  ConstView own = {};  // this rank's slice if it is stored outside of `data`; only for all_gather

  int64_t first_of(int64_t rank) const { return std::min(count, rank * slice); }
  int64_t count_of(int64_t rank) const { return std::min(slice, count - first_of(rank)); }
};

}  // namespace plimsoll
