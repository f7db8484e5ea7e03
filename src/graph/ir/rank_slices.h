// The division of a value among the ranks of a run. Thread-safe: values only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// Each rank has one slice of the value, in the order of the ranks. All slices have size() numbers, except that the last ones end
// with the value or are empty. The ops of the pass shard_states work on the slice of the rank that executes them, so that all ranks
// have the same plan.
struct RankSlices {
  // Sizes are multiples of this number, because noise is drawn for 4 elements at a time, states of 8 bits have one maximum per
  // 256 elements, and kernels work on cache lines.
  static constexpr int64_t kBlock = 256;

  int64_t ranks = 1;
  int64_t block = kBlock;

  int64_t size(int64_t numbers) const {
    const int64_t least = (numbers + ranks - 1) / ranks;
    return std::min(numbers, (least + block - 1) / block * block);
  }
  // Return the slice [first_of, end_of) of a rank.
  int64_t first_of(int64_t numbers, int64_t rank) const { return std::min(numbers, rank * size(numbers)); }
  int64_t end_of(int64_t numbers, int64_t rank) const { return first_of(numbers, rank + 1); }

  friend bool operator==(const RankSlices&, const RankSlices&) = default;
};

}  // namespace plimsoll
