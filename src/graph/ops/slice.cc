#include "graph/ops/slice.h"

#include <string>

#include "base/check.h"

namespace plimsoll {

std::optional<Slice> slice_of(const Attributes& attributes) {
  if (!attributes.has("of")) return std::nullopt;
  return Slice{.first = attributes.integer("first"),
               .elements = attributes.integer("elements"),
               .of = attributes.integer("of")};
}

void set_slice(Attributes& attributes, const Slice& slice) {
  attributes.set("first", slice.first);
  attributes.set("elements", slice.elements);
  attributes.set("of", slice.of);
}

std::optional<RankSlices> rank_slices_of(const Attributes& attributes) {
  if (!attributes.has("ranks")) return std::nullopt;
  return RankSlices{.ranks = attributes.integer("ranks"),
                    .block = attributes.integer_or("block", RankSlices::kBlock)};
}

void set_rank_slices(Attributes& attributes, const RankSlices& slices) {
  attributes.set("ranks", slices.ranks);
  if (slices.block != RankSlices::kBlock) attributes.set("block", slices.block);
}

MeshAxis mesh_axis_of(const Attributes& attributes) {
  if (!attributes.has("axis")) return MeshAxis::kData;
  for (const MeshAxis axis : {MeshAxis::kTensor, MeshAxis::kPipeline, MeshAxis::kEnds}) {
    if (attributes.word("axis") == mesh_axis_name(axis)) return axis;
  }
  PLIMSOLL_CHECK(false, "the attribute 'axis' is '{}', which is not an axis of the mesh of ranks",
                 attributes.word("axis"));
}

void set_mesh_axis(Attributes& attributes, MeshAxis axis) {
  if (axis != MeshAxis::kData) attributes.set("axis", std::string(mesh_axis_name(axis)));
}

Shape shape_of(const Slice& slice, const Shape& whole) {
  PLIMSOLL_CHECK(
      whole.rank() >= 1 && !whole.depends_on_bucket(),
      "a value that is sliced by rows must have at least one dimension and a size that does not depend on "
      "the batch, but this one has {} dimensions, and depends on the batch: {}",
      whole.rank(), whole.depends_on_bucket());
  std::vector<Dim> dims(whole.dims().begin(), whole.dims().end());
  const int64_t rows = dims[0].offset;
  PLIMSOLL_CHECK(
      rows * slice.first % slice.of == 0 && rows * slice.elements % slice.of == 0,
      "a slice must consist of complete rows, but the slice of {} of {} elements that begins at element "
      "{} contains only a part of a row; the value has {} rows",
      slice.elements, slice.of, slice.first, rows);
  dims[0] = Dim(rows * slice.elements / slice.of);
  return Shape(dims);
}

}  // namespace plimsoll
