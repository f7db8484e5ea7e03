#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "kernels/communication/all_reduce.h"
#include "kernels/communication/communication_catalog.h"

namespace plimsoll {
namespace {

constexpr int kThreads = 256;
constexpr int kMostParts = 40;  // per launch; they are arguments of the kernel

// A part of a tensor that one launch sums: the elements of this rank, and those of each rank by what has to be added to the
// address of the own ones (in bytes).
template <typename T>
struct Part {
  const T* own = nullptr;
  T* sum = nullptr;
  int64_t count = 0;
  int64_t copies =
      0;  // bytes from `own` to the copies of the first other rank, and between those of two other ranks
  int64_t between = 0;
};

template <typename T>
struct Parts {
  Part<T> part[kMostParts];
};

// The distances to the memory of each rank, if a kernel reads it there.
struct Distances {
  int64_t bytes[kMostPeers] = {};
};

template <typename T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};

template <typename T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

// Adds up vector i of all ranks in the order of the ranks.
template <typename T, typename OfRank>
__device__ Vector<T> sum_of(int ranks, const OfRank& of_rank) {
  using Sum = typename Accumulator<T>::Type;
  Sum sums[Vector<T>::kSize] = {};
  for (int rank = 0; rank < ranks; ++rank) {
    const Vector<T> values = of_rank(rank);
#pragma unroll
    for (int k = 0; k < Vector<T>::kSize; ++k) sums[k] += static_cast<Sum>(values.values[k]);
  }
  Vector<T> result;
#pragma unroll
  for (int k = 0; k < Vector<T>::kSize; ++k) result.values[k] = static_cast<T>(sums[k]);
  return result;
}

// Calls work(i) for each vector of a part and returns the number of the elements in them; the other elements are the tail.
template <typename T, typename Work>
__device__ int64_t for_each_vector(int64_t count, const Work& work) {
  const int64_t vectors = count / Vector<T>::kSize;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < vectors;
       i += int64_t{kThreads} * gridDim.x)
    work(i);
  return vectors * Vector<T>::kSize;
}

template <typename T>
__device__ const T* at_distance(const T* address, int64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(address) + bytes);
}

// Sums slices whose copies of the other ranks are in scratch memory, in place.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_slices(const __grid_constant__ Parts<T> parts, int ranks, int own_rank) {
  using Sum = typename Accumulator<T>::Type;
  const Part<T>& part = parts.part[blockIdx.y];
  const auto of_rank = [&](int rank) {
    return rank == own_rank
               ? part.own
               : at_distance(part.own, part.copies + (rank - (rank > own_rank ? 1 : 0)) * part.between);
  };
  const int64_t done = for_each_vector<T>(part.count, [&](int64_t i) {
    reinterpret_cast<Vector<T>*>(part.sum)[i] =
        sum_of<T>(ranks, [&](int rank) { return reinterpret_cast<const Vector<T>*>(of_rank(rank))[i]; });
  });
  const int64_t i = done + threadIdx.x;
  if (blockIdx.x != 0 || i >= part.count) return;
  Sum sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += static_cast<Sum>(of_rank(rank)[i]);
  part.sum[i] = static_cast<T>(sum);
}

// Sums whole small tensors, which are read in the memory of all ranks.
template <typename T>
__global__ void __launch_bounds__(kThreads) sum_small(const __grid_constant__ Parts<T> parts, int ranks,
                                                      const __grid_constant__ Distances distances) {
  using Sum = typename Accumulator<T>::Type;
  const Part<T>& part = parts.part[blockIdx.y];
  const int64_t done = for_each_vector<T>(part.count, [&](int64_t i) {
    reinterpret_cast<Vector<T>*>(part.sum)[i] = sum_of<T>(ranks, [&](int rank) {
      return reinterpret_cast<const Vector<T>*>(at_distance(part.own, distances.bytes[rank]))[i];
    });
  });
  const int64_t i = done + threadIdx.x;
  if (blockIdx.x != 0 || i >= part.count) return;
  Sum sum = 0;
  for (int rank = 0; rank < ranks; ++rank)
    sum += static_cast<Sum>(at_distance(part.own, distances.bytes[rank])[i]);
  part.sum[i] = static_cast<T>(sum);
}

// Copies the sums of small tensors over the tensors.
template <typename T>
__global__ void __launch_bounds__(kThreads) copy_small(const __grid_constant__ Parts<T> parts) {
  const Part<T>& part = parts.part[blockIdx.y];
  T* own = const_cast<T*>(part.own);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < part.count;
       i += int64_t{kThreads} * gridDim.x)
    own[i] = part.sum[i];
}

// Collects parts and launches a kernel for each kMostParts of them.
template <typename T, typename Launch>
void launch_parts(const std::vector<Part<T>>& all, const Launch& launch) {
  for (size_t first = 0; first < all.size(); first += kMostParts) {
    const size_t count = std::min<size_t>(kMostParts, all.size() - first);
    Parts<T> parts;
    int64_t most = 0;
    for (size_t i = 0; i < count; ++i) {
      parts.part[i] = all[first + i];
      most = std::max(most, parts.part[i].count);
    }
    // Each thread adds up about four vectors of the largest part.
    const int64_t blocks = (most / Vector<T>::kSize + 4 * kThreads - 1) / (4 * kThreads);
    launch(parts,
           dim3(static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, 512)), static_cast<unsigned>(count)));
  }
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
    const int64_t between = scratch_bytes / (ranks - 1);
    std::byte* copy = scratch;
    for (int peer = 0; peer < ranks && own.count > 0; ++peer) {
      if (peer == own_rank) continue;
      PLIMSOLL_CUDA(
          cudaMemcpyAsync(copy, reinterpret_cast<std::byte*>(data + own.first) + peers.distance_to(peer),
                          static_cast<size_t>(own.count) * sizeof(T), cudaMemcpyDeviceToDevice, stream));
      copy += between;
    }
    if (own.count > 0) {
      slices.push_back({.own = data + own.first,
                        .sum = data + own.first,
                        .count = own.count,
                        .copies = scratch - reinterpret_cast<std::byte*>(data + own.first),
                        .between = between});
    }
    scratch += scratch_bytes;
  }
  launch_parts(slices, [&](const Parts<T>& parts, dim3 grid) {
    sum_slices<T><<<grid, kThreads, 0, stream>>>(parts, ranks, own_rank);
    PLIMSOLL_CHECK_LAUNCH("sum_slices");
  });
  Distances distances;
  for (int peer = 0; peer < ranks; ++peer) distances.bytes[peer] = peers.distance_to(peer);
  launch_parts(small, [&](const Parts<T>& parts, dim3 grid) {
    sum_small<T><<<grid, kThreads, 0, stream>>>(parts, ranks, distances);
    PLIMSOLL_CHECK_LAUNCH("sum_small");
  });
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
  launch_parts(small, [&](const Parts<T>& parts, dim3 grid) {
    copy_small<T><<<grid, kThreads, 0, stream>>>(parts);
    PLIMSOLL_CHECK_LAUNCH("copy_small");
  });
  peers.meet(PeerMemory::Point::kEnd, stream);
}

}  // namespace

void all_reduce_cuda_peers(const AllReduceArgs& args, CudaStream stream) {
  if (args.tensors.empty()) return;
  switch (args.tensors.front().data.dtype) {
    case DType::kF32:
      return reduce<float>(args, stream);
    case DType::kF64:
      return reduce<double>(args, stream);
    case DType::kBF16:
      return reduce<__nv_bfloat16>(args, stream);
    case DType::kF16:
      return reduce<__half>(args, stream);
    default:
      break;
  }
  throw_error(ErrorCode::kInternal, "GPUs are asked to add elements of type {}",
              dtype_name(args.tensors.front().data.dtype));
}

}  // namespace plimsoll
