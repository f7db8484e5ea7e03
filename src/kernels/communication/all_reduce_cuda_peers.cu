#include <algorithm>
#include <vector>

#include "kernels/communication/all_reduce.h"
#include "kernels/communication/communication_catalog.h"
#include "kernels/communication/peer_parts.cuh"

namespace plimsoll {
namespace {

using cuda::Part;
using cuda::Parts;

// Copies the sums of small tensors from scratch memory back to the tensors.
template <typename T>
__global__ void __launch_bounds__(cuda::kPartThreads)
    copy_small(const __grid_constant__ Parts<Part<T>> parts) {
  const Part<T>& part = parts.part[blockIdx.y];
  T* own = const_cast<T*>(part.own);
  for (int64_t i = blockIdx.x * int64_t{cuda::kPartThreads} + threadIdx.x; i < part.count;
       i += int64_t{cuda::kPartThreads} * gridDim.x)
    own[i] = part.sum[i];
}

bool is_small(const ReducedTensor& tensor) {
  return tensor.count * dtype_bytes(tensor.data.dtype) < kSmallTensorBytes;
}

struct Range {
  int64_t first = 0;
  int64_t count = 0;
};
Range slice_of_rank(const ReducedTensor& tensor, int rank, int ranks) {
  const int64_t size = slice_elements(tensor.count, ranks);
  const int64_t first = std::min(tensor.count, rank * size);
  return {first, std::min(size, tensor.count - first)};
}

template <typename T>
void reduce(const AllReduceArgs& args, CudaStream stream) {
  PeerMemory& peers = *args.peers;
  const int ranks = peers.size();
  const int own_rank = peers.rank();
  std::vector<Part<T>> slices, small;
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  peers.meet(PeerMemory::Point::kBegin, stream);
  for (const ReducedTensor& tensor : args.tensors) {
    if (tensor.count == 0) continue;
    T* data = static_cast<T*>(tensor.data.data);
    const int64_t scratch_bytes = peer_scratch_bytes_of(tensor.count, sizeof(T), ranks);
    if (is_small(tensor)) {
      small.push_back({.own = data, .sum = reinterpret_cast<T*>(scratch), .count = tensor.count});
      scratch += scratch_bytes;
      continue;
    }
    const Range own = slice_of_rank(tensor, own_rank, ranks);
    if (own.count > 0)
      slices.push_back(cuda::copy_slices(peers, data + own.first, own.count, scratch,
                                         scratch_bytes / (ranks - 1), stream));
    scratch += scratch_bytes;
  }
  cuda::launch_sums_of_slices(slices, peers, stream);
  cuda::launch_sums_at_peers(small, peers, stream);
  peers.meet(PeerMemory::Point::kMiddle, stream);
  for (const ReducedTensor& tensor : args.tensors) {
    if (tensor.count == 0 || is_small(tensor)) continue;
    for (int peer = 0; peer < ranks; ++peer) {
      const Range slice = slice_of_rank(tensor, peer, ranks);
      if (peer == own_rank || slice.count == 0) continue;
      auto* to = reinterpret_cast<std::byte*>(static_cast<T*>(tensor.data.data) + slice.first);
      PLIMSOLL_CUDA(cudaMemcpyAsync(to, to + peers.distance_to(peer),
                                    static_cast<size_t>(slice.count) * sizeof(T), cudaMemcpyDeviceToDevice,
                                    stream));
    }
  }
  cuda::launch_parts(small, [&](const Parts<Part<T>>& parts, dim3 grid) {
    copy_small<T><<<grid, cuda::kPartThreads, 0, stream>>>(parts);
    PLIMSOLL_CHECK_LAUNCH("copy_small");
  });
  peers.meet(PeerMemory::Point::kEnd, stream);
}

}  // namespace

void all_reduce_cuda_peers(const AllReduceArgs& args, CudaStream stream) {
  if (args.tensors.empty()) return;
  cuda::with_summed_type(args.tensors.front().data.dtype,
                         [&](auto type) { reduce<decltype(type)>(args, stream); });
}

}  // namespace plimsoll
