#include <algorithm>
#include <vector>

#include "kernels/communication/communication_catalog.h"
#include "kernels/communication/peer_parts.cuh"
#include "kernels/communication/reduce_scatter.h"

namespace plimsoll {
namespace {

using cuda::Part;
using cuda::Parts;

int64_t bytes_of(const DividedTensor& tensor, int64_t elements) {
  return elements * dtype_bytes(tensor.data.dtype);
}

bool is_small(const DividedTensor& tensor) {
  return bytes_of(tensor, tensor.count) < kSmallTensorBytes;
}

// Computes reduce_scatter. The small slices of this rank are summed in place. This is safe: the other ranks read only their own slices in
// this rank's memory.
template <typename T>
void scatter_sums(const RankSlicesArgs& args, CudaStream stream) {
  PeerMemory& peers = *args.peers;
  std::vector<Part<T>> slices, small;
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  peers.meet(PeerMemory::Point::kBegin, stream);
  for (const DividedTensor& tensor : args.tensors) {
    const int64_t count = tensor.count_of(peers.rank());
    T* own = static_cast<T*>(tensor.data.data) + tensor.first_of(peers.rank());
    PLIMSOLL_CHECK(count <= 0 || reinterpret_cast<uintptr_t>(own) % sizeof(cuda::Vector<T>) == 0,
                   "the slice of a rank must begin at a multiple of 16 bytes, but begins {} bytes after one",
                   reinterpret_cast<uintptr_t>(own) % sizeof(cuda::Vector<T>));
    if (is_small(tensor)) {
      if (count > 0) small.push_back({.own = own, .sum = own, .count = count});
      continue;
    }
    const int64_t between = peer_copy_bytes(tensor.slice, sizeof(T));
    if (count > 0) slices.push_back(cuda::copy_slices(peers, own, count, scratch, between, stream));
    scratch += (peers.size() - 1) * between;
  }
  cuda::launch_sums_of_slices(slices, peers, stream);
  cuda::launch_sums_at_peers(small, peers, stream);
  peers.meet(PeerMemory::Point::kEnd, stream);
}

// A small tensor that a launch completes with the slices of the other ranks. Sizes and distances are in bytes.
struct Gathered {
  std::byte* to = nullptr;
  // States where each rank stores its own slice. 0: at the slice's place in the tensor. Otherwise outside the tensor, and `from` is the
  // distance from `to` to the slice, which is the same on all ranks.
  int64_t from = 0;
  int64_t count = 0;
  int64_t slice = 0;
};

// Copies the slices of all other ranks into the tensor, in elements of type U, whose size divides `slice`.
template <typename U>
__device__ void gather_units(const Gathered& tensor, int own_rank, const cuda::Distances& distances) {
  const int64_t units = tensor.count / static_cast<int64_t>(sizeof(U));
  for (int64_t i = blockIdx.x * int64_t{cuda::kPartThreads} + threadIdx.x; i < units;
       i += int64_t{cuda::kPartThreads} * gridDim.x) {
    const int64_t at = i * static_cast<int64_t>(sizeof(U));
    const int64_t rank = at / tensor.slice;
    if (rank == own_rank) continue;
    // If ranks store their slices outside the tensor, every rank's slice begins at the same distance tensor.from, whatever its place in the
    // tensor is.
    const int64_t from = tensor.from == 0 ? at : at - rank * tensor.slice + tensor.from;
    *reinterpret_cast<U*>(tensor.to + at) =
        *reinterpret_cast<const U*>(tensor.to + from + distances.bytes[rank]);
  }
}

__global__ void __launch_bounds__(cuda::kPartThreads)
    gather_small(const __grid_constant__ Parts<Gathered> tensors, int own_rank,
                 const __grid_constant__ cuda::Distances distances) {
  const Gathered& tensor = tensors.part[blockIdx.y];
  if (tensor.count % 16 == 0 && tensor.slice % 16 == 0) {
    gather_units<uint4>(tensor, own_rank, distances);
  } else {
    gather_units<std::byte>(tensor, own_rank, distances);
  }
}

}  // namespace

void reduce_scatter_cuda_peers(const RankSlicesArgs& args, CudaStream stream) {
  if (args.tensors.empty()) return;
  cuda::with_summed_type(args.tensors.front().data.dtype,
                         [&](auto type) { scatter_sums<decltype(type)>(args, stream); });
}

void all_gather_cuda_peers(const RankSlicesArgs& args, CudaStream stream) {
  if (args.tensors.empty()) return;
  PeerMemory& peers = *args.peers;
  const int own_rank = peers.rank();
  std::vector<Gathered> small;
  peers.meet(PeerMemory::Point::kBegin, stream);
  for (const DividedTensor& tensor : args.tensors) {
    auto* to = static_cast<std::byte*>(tensor.data.data);
    const auto* own = static_cast<const std::byte*>(tensor.own.data);
    if (is_small(tensor) && tensor.count > 0)
      small.push_back({.to = to,
                       .from = own == nullptr ? 0 : own - to,
                       .count = bytes_of(tensor, tensor.count),
                       .slice = bytes_of(tensor, tensor.slice)});
    for (int peer = 0; peer < peers.size(); ++peer) {
      const int64_t bytes = bytes_of(tensor, tensor.count_of(peer));
      if (bytes <= 0) continue;
      std::byte* slice = to + bytes_of(tensor, tensor.first_of(peer));
      // Skips slices that need no copy: this rank's slice if it is in the tensor already, and small slices of other ranks, which a kernel
      // copies below.
      if (peer == own_rank ? own == nullptr : is_small(tensor)) continue;
      const std::byte* from = (own == nullptr ? slice : own) + peers.distance_to(peer);
      PLIMSOLL_CUDA(
          cudaMemcpyAsync(slice, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream));
    }
  }
  const cuda::Distances distances = cuda::distances_of(peers);
  cuda::launch_items(
      small, [](const Gathered& tensor) { return tensor.count / 16; },
      [&](const Parts<Gathered>& tensors, dim3 grid) {
        gather_small<<<grid, cuda::kPartThreads, 0, stream>>>(tensors, own_rank, distances);
        PLIMSOLL_CHECK_LAUNCH("gather_small");
      });
  peers.meet(PeerMemory::Point::kEnd, stream);
}

}  // namespace plimsoll
