// A part of a parameter that one op works on: an update of some of its elements, the copy of their states. An
// op with these attributes finds a value that belongs to the parameter whole, or finds the part alone; which,
// its size says. Thread-safe: values only.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/graph.h"

namespace plimsoll {

// Elements [first, first + elements) of the `of` that the parameter has. A value with k numbers for each of
// them has its part at k first.
struct Slice {
  int64_t first = 0;
  int64_t elements = 0;
  int64_t of = 0;

  // Where the part begins in a value of so many elements, which holds all of it or the part alone. Requires:
  // the part is not the whole.
  int64_t first_in(int64_t value_elements, int64_t numbers_per_element) const {
    return value_elements == of * numbers_per_element ? first * numbers_per_element : 0;
  }
  // Whether the value is one of the two.
  bool is_of(int64_t value_elements, int64_t numbers_per_element) const {
    return value_elements == of * numbers_per_element || value_elements == elements * numbers_per_element;
  }
  // As long as the part of a value of so many bytes.
  int64_t part_of(int64_t whole) const { return whole / of * elements + whole % of * elements / of; }
};

// The attributes "first", "elements" and "of"; nothing where the op works on all of its parameters.
std::optional<Slice> slice_of(const Attributes& attributes);
void set_slice(Attributes& attributes, const Slice& slice);

// The shape of the part of a value: as many rows of it. Requires: a part of whole rows.
Shape shape_of(const Slice& slice, const Shape& whole);

}  // namespace plimsoll
