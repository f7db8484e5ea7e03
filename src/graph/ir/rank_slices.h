// The division of a value among the ranks of a run. Thread-safe: values only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// The value is divided into slices, one per rank, in the order of the ranks. All slices have size() elements, but
// the last ones may be shorter or empty, because they end where the value ends. The pass shard_states makes ops
// work on the slice of the rank that executes them, so that one plan is valid for all ranks.
struct RankSlices {
  // The size of a slice is a multiple of this number of elements, because random noise is drawn for 4 elements at a time, 8-bit optimizer
  // states have one maximum per 256 elements, and kernels work on whole cache lines.
  static constexpr int64_t kBlock = 256;

  int64_t ranks = 1;
  int64_t block = kBlock;

  int64_t size(int64_t numbers) const {
    const int64_t least = (numbers + ranks - 1) / ranks;
    return std::min(numbers, (least + block - 1) / block * block);
  }
  // Return the first element of the slice of a rank, and the element after its last one.
  int64_t first_of(int64_t numbers, int64_t rank) const { return std::min(numbers, rank * size(numbers)); }
  int64_t end_of(int64_t numbers, int64_t rank) const { return first_of(numbers, rank + 1); }

  friend bool operator==(const RankSlices&, const RankSlices&) = default;
};

}  // namespace plimsoll
