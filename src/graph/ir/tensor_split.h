// The division of a value among the ranks of a tensor-parallel group by rows or columns. Thread-safe: values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "graph/ir/shape.h"

namespace plimsoll {

// The whole value is a sequence of equal cycles, and a cycle is a sequence of parts. Of each part of each cycle, rank r has the
// r-th of `ranks` equal pieces; its pieces are stored in the order of the whole value. A matrix that is divided by
// rows is one cycle: its parts are the rows of the matrices that it consists of, such as those of queries, keys and values. A
// matrix that is divided by columns has a cycle of one part per row.
//
// Unlike a value that RankSlices divides, a value with a TensorSplit has the type of the rank's own part: ops compute with it.
struct TensorSplit {
  int64_t ranks = 1;
  std::vector<int64_t> parts = {};  // elements of the parts of a cycle; `ranks` divides each
  Shape whole = {};                 // shape of the whole value

  int64_t whole_elements() const { return whole.elements({}); }
  int64_t elements() const { return whole_elements() / ranks; }

  // Returns the number of elements of a rank that come before this element of the whole value.
  int64_t elements_before(int64_t element, int64_t rank) const {
    const int64_t cycle = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    int64_t before = element / cycle * (cycle / ranks);
    int64_t left = element % cycle;
    for (const int64_t part : parts) {
      before += std::clamp<int64_t>(left - rank * (part / ranks), 0, part / ranks);
      left = std::max<int64_t>(0, left - part);
    }
    return before;
  }

  // Calls `use` with the first element and the number of elements of each run of neighbouring elements of the whole value that
  // this rank has in [begin, end), in their order.
  void for_each_run(int64_t rank, int64_t begin, int64_t end,
                    const std::function<void(int64_t, int64_t)>& use) const {
    const int64_t cycle = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    for (int64_t start = begin / cycle * cycle; start < end; start += cycle) {
      int64_t part_begin = start;
      for (const int64_t part : parts) {
        const int64_t first = std::max(begin, part_begin + rank * (part / ranks));
        const int64_t last = std::min(end, part_begin + (rank + 1) * (part / ranks));
        if (first < last) use(first, last - first);
        part_begin += part;
      }
    }
  }

  // Returns the division of a value that has `numbers` elements per element of this one, stored as a vector.
  TensorSplit flattened(int64_t numbers) const {
    TensorSplit split{.ranks = ranks, .parts = parts, .whole = Shape{numbers * whole_elements()}};
    for (int64_t& part : split.parts) part *= numbers;
    return split;
  }

  friend bool operator==(const TensorSplit&, const TensorSplit&) = default;
};

}  // namespace plimsoll
