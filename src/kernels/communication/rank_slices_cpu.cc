#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/communication/communication_catalog.h"
#include "kernels/communication/reduce_scatter.h"

namespace plimsoll {
namespace {

int64_t bytes_of(const DividedTensor& tensor, int64_t elements) {
  return elements * dtype_bytes(tensor.data.dtype);
}

bool is_small(const DividedTensor& tensor) {
  return bytes_of(tensor, tensor.count) < kSmallTensorBytes;
}

// Returns the number of elements of each rank's slice of a tensor, in the order of the ranks.
std::vector<int64_t> slice_counts(const DividedTensor& tensor, int num_ranks) {
  std::vector<int64_t> counts;
  counts.reserve(static_cast<size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) counts.push_back(tensor.count_of(rank));
  return counts;
}

// Copies the small tensors of a list into one block of memory and back. The block contains all slices of rank 0, then all slices of rank 1,
// and so on.
class SmallTensors {
 public:
  SmallTensors(std::span<const DividedTensor> tensors, void* memory, int num_ranks)
      : tensors_(tensors), memory_(static_cast<std::byte*>(memory)), num_ranks_(num_ranks) {}

  void copy_in() const {
    for_each_slice([](std::byte* copy, std::byte* slice, size_t bytes) { std::memcpy(copy, slice, bytes); });
  }
  void copy_out() const {
    for_each_slice([](std::byte* copy, std::byte* slice, size_t bytes) { std::memcpy(slice, copy, bytes); });
  }
  // Returns, for each rank, the number of bytes of its slices of all small tensors.
  std::vector<int64_t> bytes_of_ranks() const {
    std::vector<int64_t> bytes(static_cast<size_t>(num_ranks_), 0);
    for (const DividedTensor& tensor : tensors_) {
      if (!is_small(tensor)) continue;
      for (int rank = 0; rank < num_ranks_; ++rank)
        bytes[static_cast<size_t>(rank)] += bytes_of(tensor, tensor.count_of(rank));
    }
    return bytes;
  }
  std::byte* memory() const { return memory_; }

 private:
  template <typename Copy>
  void for_each_slice(const Copy& copy) const {
    std::byte* at = memory_;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      for (const DividedTensor& tensor : tensors_) {
        const auto bytes = static_cast<size_t>(bytes_of(tensor, tensor.count_of(rank)));
        if (!is_small(tensor) || bytes == 0) continue;
        copy(at, static_cast<std::byte*>(tensor.data.data) + bytes_of(tensor, tensor.first_of(rank)), bytes);
        at += bytes;
      }
    }
  }

  std::span<const DividedTensor> tensors_;
  std::byte* memory_;
  int num_ranks_;
};

}  // namespace

void place_own_slices(const RankSlicesArgs& args) {
  const int rank = args.communicator->rank();
  for (const DividedTensor& tensor : args.tensors) {
    if (!tensor.own || tensor.count_of(rank) <= 0) continue;
    std::memcpy(static_cast<std::byte*>(tensor.data.data) + bytes_of(tensor, tensor.first_of(rank)),
                tensor.own.data, static_cast<size_t>(bytes_of(tensor, tensor.count_of(rank))));
  }
}

void reduce_scatter_cpu(const RankSlicesArgs& args) {
  const int num_ranks = args.communicator->size();
  const SmallTensors small(args.tensors, args.scratch.data, num_ranks);
  std::vector<int64_t> counts = small.bytes_of_ranks();
  const DType dtype = args.tensors.front().data.dtype;
  for (int64_t& count : counts) count /= dtype_bytes(dtype);
  small.copy_in();
  args.communicator->reduce_scatter({small.memory(), dtype}, counts);
  small.copy_out();
  for (const DividedTensor& tensor : args.tensors) {
    if (!is_small(tensor)) args.communicator->reduce_scatter(tensor.data, slice_counts(tensor, num_ranks));
  }
}

void all_gather_cpu(const RankSlicesArgs& args) {
  place_own_slices(args);
  const int num_ranks = args.communicator->size();
  const SmallTensors small(args.tensors, args.scratch.data, num_ranks);
  small.copy_in();
  args.communicator->all_gather_parts(small.memory(), small.bytes_of_ranks());
  small.copy_out();
  for (const DividedTensor& tensor : args.tensors) {
    if (is_small(tensor)) continue;
    std::vector<int64_t> bytes = slice_counts(tensor, num_ranks);
    for (int64_t& count : bytes) count = bytes_of(tensor, count);
    args.communicator->all_gather_parts(static_cast<std::byte*>(tensor.data.data), bytes);
  }
}

}  // namespace plimsoll
