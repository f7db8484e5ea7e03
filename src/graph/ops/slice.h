// The slice of a parameter that an op works on. An update, or a copy of optimizer states, can be cut into several ops, one per slice. The
// operands of such an op that belong to the parameter are either whole values or only their slices. Their sizes tell which. Thread-safe:
// values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/rank_mesh.h"
#include "graph/ir/graph.h"
#include "graph/ir/rank_slices.h"

namespace plimsoll {

// Elements [first, first + elements) of a parameter with `of` elements. In a value that stores k numbers per element, the slice begins at k
// * first.
struct Slice {
  int64_t first = 0;
  int64_t elements = 0;
  int64_t of = 0;

  // Returns the index of the first element of the slice in a value of `value_elements` elements: `numbers_per_element * first` if the value
  // is whole, 0 if it contains only the slice. Requires: the slice is smaller than the parameter.
  int64_t first_in(int64_t value_elements, int64_t numbers_per_element) const {
    return value_elements == of * numbers_per_element ? first * numbers_per_element : 0;
  }
  // Returns true if a value with `value_elements` elements contains either the whole parameter or exactly the slice, with
  // `numbers_per_element` numbers per element of the parameter.
  bool is_of(int64_t value_elements, int64_t numbers_per_element) const {
    return value_elements == of * numbers_per_element || value_elements == elements * numbers_per_element;
  }
  // Returns how many elements belong to the slice in a value that stores `whole` elements for the complete parameter.
  int64_t part_of(int64_t whole) const { return whole / of * elements + whole % of * elements / of; }
};

// Returns the slice that rank `rank` has of a value with `numbers` elements.
inline Slice slice_of_rank(const RankSlices& slices, int64_t numbers, int64_t rank) {
  const int64_t first = slices.first_of(numbers, rank);
  return {.first = first, .elements = slices.end_of(numbers, rank) - first, .of = numbers};
}

// Read and write the attributes "ranks" and "block". An op with these attributes works only on the slice of the rank that runs it.
std::optional<RankSlices> rank_slices_of(const Attributes& attributes);
void set_rank_slices(Attributes& attributes, const RankSlices& slices);

// Read and write the attribute "axis" of a collective op: the axis of the mesh along which it communicates. Without the attribute this is
// the data axis.
MeshAxis mesh_axis_of(const Attributes& attributes);
void set_mesh_axis(Attributes& attributes, MeshAxis axis);

// The name of the attribute with the number of ranks of a tensor-parallel group, on ops that compute with this rank's part of a weight or
// of the attention heads.
inline constexpr std::string_view kTensorRanks = "tensor_ranks";

// Read and write the attributes "first", "elements" and "of" of an op that works on a slice. Without them the op works on the whole
// parameter.
std::optional<Slice> slice_of(const Attributes& attributes);
void set_slice(Attributes& attributes, const Slice& slice);

// Returns the shape of the slice of a value: the shape of the value with fewer rows. Requires: the slice consists of whole rows.
Shape shape_of(const Slice& slice, const Shape& whole);

}  // namespace plimsoll
