// The mesh of the ranks of a run: groups that train on different batches (data parallelism), each of which consists of ranks that
// divide the weights of the layers (tensor parallelism). The ranks of one tensor-parallel group are neighbours. A value;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll {

// The axes of the mesh. A collective operation works on the ranks that differ only in their position on one axis.
enum class MeshAxis : uint8_t { kData, kTensor };
constexpr std::string_view mesh_axis_name(MeshAxis axis) {
  return axis == MeshAxis::kData ? "data" : "tensor";
}

struct RankMesh {
  int size = 1;         // number of ranks
  int tensor_size = 1;  // number of ranks of a tensor-parallel group; divides `size`

  int data_size() const { return size / tensor_size; }
  // Return the position of a rank on each axis.
  int data_rank(int rank) const { return rank / tensor_size; }
  int tensor_rank(int rank) const { return rank % tensor_size; }
  // Returns the ranks with which this rank works along an axis, in their order, itself included.
  std::vector<int> group_of(int rank, MeshAxis axis) const {
    const bool is_data = axis == MeshAxis::kData;
    const int count = is_data ? data_size() : tensor_size;
    std::vector<int> members;
    members.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      members.push_back(is_data ? i * tensor_size + tensor_rank(rank) : data_rank(rank) * tensor_size + i);
    return members;
  }
  friend bool operator==(const RankMesh&, const RankMesh&) = default;
};

}  // namespace plimsoll
