// The division of a value among the ranks of a tensor-parallel group by rows or columns. Thread-safe: values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "graph/ir/shape.h"

namespace plimsoll {

// The whole value is a sequence of cycles of equal size, and a cycle is a sequence of parts. Each part is cut into `ranks`
// pieces of equal size, and rank r stores the r-th piece of every part, in the order of the whole value. A matrix that is
// divided by rows is one cycle; its parts are the matrices that were joined in it, such as those of queries, keys and
// values. A matrix that is divided by columns has one cycle per row, each with one part. A cycle may be longer than the
// value (of_rows()): the pieces of the last ranks then end with padding, which is zero and does not belong to the value.
//
// Unlike a value that RankSlices divides, a value with a TensorSplit has the type of the rank's own part: ops compute with it.
struct TensorSplit {
  int64_t ranks = 1;
  // Number of elements of each part of a cycle; all are multiples of `ranks`.
  std::vector<int64_t> parts = {};
  Shape whole = {};  // shape of the whole value

  int64_t whole_elements() const { return whole.elements({}); }
  int64_t cycle() const { return std::accumulate(parts.begin(), parts.end(), int64_t{0}); }
  // Returns the number of elements that each rank stores, including padding.
  int64_t elements() const {
    const int64_t cycles = (whole_elements() + cycle() - 1) / cycle();
    return cycles * (cycle() / ranks);
  }
  bool has_padding() const { return elements() * ranks > whole_elements(); }

  // Returns how many of the elements that a rank stores come before element number `element` of the whole value.
  int64_t elements_before(int64_t element, int64_t rank) const {
    int64_t before = element / cycle() * (cycle() / ranks);
    int64_t left = element % cycle();
    for (const int64_t part : parts) {
      before += std::clamp<int64_t>(left - rank * (part / ranks), 0, part / ranks);
      left = std::max<int64_t>(0, left - part);
    }
    return before;
  }

  // Calls `use` for each contiguous range of elements within [begin, end) of the whole value that this rank stores, in ascending order,
  // with the first element of the range and the number of its elements.
  void for_each_run(int64_t rank, int64_t begin, int64_t end,
                    const std::function<void(int64_t, int64_t)>& use) const {
    for (int64_t start = begin / cycle() * cycle(); start < end; start += cycle()) {
      int64_t part_begin = start;
      for (const int64_t part : parts) {
        const int64_t first = std::max(begin, part_begin + rank * (part / ranks));
        const int64_t last = std::min(end, part_begin + (rank + 1) * (part / ranks));
        if (first < last) use(first, last - first);
        part_begin += part;
      }
    }
  }

  // rows_of_rank() returns the number of neighbouring rows that each rank has if a value is divided among `ranks` by rows, and of_rows()
  // returns this division. If `ranks` does not divide the rows, the rows of a rank are rounded up to a multiple of kPaddedRows, so that
  // each row of 16-bit logits begins at 16 bytes; the last ranks then have padding.
  static constexpr int64_t kPaddedRows = 8;
  static int64_t rows_of_rank(int64_t rows, int64_t ranks) {
    if (rows % ranks == 0) return rows / ranks;
    return (rows / ranks + kPaddedRows) / kPaddedRows * kPaddedRows;
  }
  static TensorSplit of_rows(const Shape& whole, int64_t ranks) {
    const int64_t width = whole.rank() > 1 ? whole[1].offset : 1;
    return {.ranks = ranks, .parts = {ranks * rows_of_rank(whole[0].offset, ranks) * width}, .whole = whole};
  }

  // Returns the division of a vector with `numbers` elements per element of this value, such as 2 for the bytes of a 16-bit weight.
  TensorSplit flattened(int64_t numbers) const {
    TensorSplit split{.ranks = ranks, .parts = parts, .whole = Shape{numbers * whole_elements()}};
    for (int64_t& part : split.parts) part *= numbers;
    return split;
  }

  friend bool operator==(const TensorSplit&, const TensorSplit&) = default;
};

}  // namespace plimsoll
