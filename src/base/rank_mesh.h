// The mesh of the ranks of a run: stages of a pipeline, each of which consists of groups that train on different batches (data
// parallelism), each of which consists of ranks that divide the weights of the layers (tensor parallelism). The ranks of one
// tensor-parallel group are neighbours, and those of one stage follow each other. A value; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll {

// The axes of the mesh. A collective operation along an axis involves the ranks that differ only in their position on this axis. kEnds is
// not a real axis: each of its groups consists of the first and the last rank along the pipeline axis, if there are at least two stages.
// These two ranks sum the gradients of weights that both of them use, such as an embedding table that is also the output layer.
enum class MeshAxis : uint8_t { kData, kTensor, kPipeline, kEnds };
constexpr std::string_view mesh_axis_name(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kData:
      break;
    case MeshAxis::kTensor:
      return "tensor";
    case MeshAxis::kPipeline:
      return "pipeline";
    case MeshAxis::kEnds:
      return "ends";
  }
  return "data";
}

struct RankMesh {
  int size = 1;           // number of ranks
  int tensor_size = 1;    // number of ranks of a tensor-parallel group; divides `size`
  int pipeline_size = 1;  // number of stages of the pipeline; tensor_size * pipeline_size divides `size`

  int data_size() const { return size / (tensor_size * pipeline_size); }
  // Return the position of a rank on each axis.
  int data_rank(int rank) const { return rank / tensor_size % data_size(); }
  int tensor_rank(int rank) const { return rank % tensor_size; }
  int stage(int rank) const { return rank / (size / pipeline_size); }
  // Returns the rank with these positions on the three axes.
  int rank_at(int stage, int data_rank, int tensor_rank) const {
    return (stage * data_size() + data_rank) * tensor_size + tensor_rank;
  }
  // Returns all ranks of the group to which this rank belongs along an axis, including itself, in order. Requires: for kEnds, the
  // rank is in the first or the last stage.
  std::vector<int> group_of(int rank, MeshAxis axis) const {
    const int last = pipeline_size - 1;
    const int count = axis == MeshAxis::kData     ? data_size()
                      : axis == MeshAxis::kTensor ? tensor_size
                      : axis == MeshAxis::kEnds   ? 2
                                                  : pipeline_size;
    std::vector<int> members;
    members.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const int at_stage = axis == MeshAxis::kPipeline ? i : axis == MeshAxis::kEnds ? i * last : stage(rank);
      members.push_back(rank_at(at_stage, axis == MeshAxis::kData ? i : data_rank(rank),
                                axis == MeshAxis::kTensor ? i : tensor_rank(rank)));
    }
    return members;
  }
  friend bool operator==(const RankMesh&, const RankMesh&) = default;
};

}  // namespace plimsoll
