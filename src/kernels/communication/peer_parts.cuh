// Kernels that combine ranges of this rank's tensors with the same ranges of the other ranks' tensors. They read the other ranks' elements
// in the memory of the other GPUs, which this GPU maps, or in local copies. All collective kernels that use mapped memory share this code.
// Thread-safe: each call only enqueues work on its stream.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "device/comm/peer_memory.h"
#include "device/cuda/cuda_error.h"
#include "hardware/gpu_constant.h"

namespace plimsoll::cuda {

inline constexpr int kPartThreads = 256;
// The largest number of ranges per launch. A list of this length has space for all small gradients of BERT-large and takes at most a third
// of the 32 KiB that kernel arguments may have.
inline constexpr int kMostParts = 256;

// A range of a tensor that a launch sums: the elements of this rank, the destination of the sums, and where the copies of the other ranks'
// elements are.
template <typename T>
struct Part {
  const T* own = nullptr;
  T* sum = nullptr;
  int64_t count = 0;
  // distance in bytes from `own` to the copy of the same elements of the first other rank
  int64_t copies = 0;
  int64_t between = 0;  // distance in bytes between the copies of the elements of two other ranks
};

// The items of one launch, such as ranges to be summed. A thread block processes the item number blockIdx.y.
template <typename Item>
struct Parts {
  Item part[kMostParts];
};

// For each rank, the distance in bytes from a tensor in this rank's memory to the same tensor in the memory of that rank, as this GPU maps
// it. Kernels add it to an address to read the tensors of other ranks directly.
struct Distances {
  int64_t bytes[kMostPeers] = {};
};
inline Distances distances_of(const PeerMemory& peers) {
  Distances distances;
  for (int peer = 0; peer < peers.size(); ++peer) distances.bytes[peer] = peers.distance_to(peer);
  return distances;
}

template <typename T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};

template <>
struct Accumulator<int32_t> {
  using Type = int32_t;
};

template <typename T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

// Returns the sum over the ranks of one vector of 16 bytes, added in the order of the ranks. of_rank(rank) must return the vector of a
// rank.
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

// Calls work(i) for each whole vector of 16 bytes of a range; the threads of the grid divide the vectors. Returns the number of elements in
// all vectors. The caller must process the elements after them.
template <typename T, typename Work>
__device__ int64_t for_each_vector(int64_t count, const Work& work) {
  const int64_t vectors = count / Vector<T>::kSize;
  for (int64_t i = blockIdx.x * int64_t{kPartThreads} + threadIdx.x; i < vectors;
       i += int64_t{kPartThreads} * gridDim.x)
    work(i);
  return vectors * Vector<T>::kSize;
}

template <typename T>
__device__ const T* at_distance(const T* address, int64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(address) + bytes);
}

// Sums a range over all ranks. of_rank(rank) must return the address of the elements that belong to a rank.
template <typename T, typename OfRank>
__device__ void sum_part(const Part<T>& part, int ranks, const OfRank& of_rank) {
  using Sum = typename Accumulator<T>::Type;
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

// Sums the slices of this rank in place. Copies of the other ranks' elements are in scratch memory.
template <typename T>
__global__ void __launch_bounds__(kPartThreads)
    sum_slices(const __grid_constant__ Parts<Part<T>> parts, int ranks, int own_rank) {
  const Part<T>& part = parts.part[blockIdx.y];
  sum_part(part, ranks, [&](int rank) {
    return rank == own_rank
               ? part.own
               : at_distance(part.own, part.copies + (rank - (rank > own_rank ? 1 : 0)) * part.between);
  });
}

// Sums ranges whose elements it reads directly from the memory of all ranks.
template <typename T>
__global__ void __launch_bounds__(kPartThreads)
    sum_at_peers(const __grid_constant__ Parts<Part<T>> parts, int ranks,
                 const __grid_constant__ Distances distances) {
  const Part<T>& part = parts.part[blockIdx.y];
  sum_part(part, ranks, [&](int rank) { return at_distance(part.own, distances.bytes[rank]); });
}

// Calls launch(parts, grid) for groups of up to kMostParts items. vectors_of(item) must return the number of 16-byte vectors in an item.
// The grid is so large that a thread handles about four vectors of the largest item.
template <typename Item, typename VectorsOf, typename Launch>
void launch_items(const std::vector<Item>& all, const VectorsOf& vectors_of, const Launch& launch) {
  for (size_t first = 0; first < all.size(); first += kMostParts) {
    const size_t count = std::min<size_t>(kMostParts, all.size() - first);
    Parts<Item> parts;
    int64_t most = 0;
    for (size_t i = 0; i < count; ++i) {
      parts.part[i] = all[first + i];
      most = std::max<int64_t>(most, vectors_of(all[first + i]));
    }
    const int64_t blocks = (most + 4 * kPartThreads - 1) / (4 * kPartThreads);
    launch(parts,
           dim3(static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, 512)), static_cast<unsigned>(count)));
  }
}
template <typename T, typename Launch>
void launch_parts(const std::vector<Part<T>>& all, const Launch& launch) {
  launch_items(
      all, [](const Part<T>& part) { return part.count / Vector<T>::kSize; }, launch);
}

// Copies the elements of this rank's slice on every other rank into scratch memory, by copy engines. Returns the range that sum_slices()
// must then add. `own` is the first element of the slice, and `between` is the distance in bytes between two copies.
template <typename T>
Part<T> copy_slices(const PeerMemory& peers, T* own, int64_t count, std::byte* scratch, int64_t between,
                    CudaStream stream) {
  std::byte* copy = scratch;
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (peer == peers.rank()) continue;
    PLIMSOLL_CUDA(cudaMemcpyAsync(copy, reinterpret_cast<std::byte*>(own) + peers.distance_to(peer),
                                  static_cast<size_t>(count) * sizeof(T), cudaMemcpyDeviceToDevice, stream));
    copy += between;
  }
  return {.own = own,
          .sum = own,
          .count = count,
          .copies = scratch - reinterpret_cast<std::byte*>(own),
          .between = between};
}

template <typename T>
void launch_sums_of_slices(const std::vector<Part<T>>& slices, const PeerMemory& peers, CudaStream stream) {
  launch_parts(slices, [&](const Parts<Part<T>>& parts, dim3 grid) {
    sum_slices<T><<<grid, kPartThreads, 0, stream>>>(parts, peers.size(), peers.rank());
    PLIMSOLL_CHECK_LAUNCH("sum_slices");
  });
}
template <typename T>
void launch_sums_at_peers(const std::vector<Part<T>>& small, const PeerMemory& peers, CudaStream stream) {
  const Distances distances = distances_of(peers);
  launch_parts(small, [&](const Parts<Part<T>>& parts, dim3 grid) {
    sum_at_peers<T><<<grid, kPartThreads, 0, stream>>>(parts, peers.size(), distances);
    PLIMSOLL_CHECK_LAUNCH("sum_at_peers");
  });
}

// Calls work(T{}) with the C++ type of the elements, for a type that GPUs can add. Errors: kInternal for another type.
template <typename Work>
void with_summed_type(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kF32:
      return work(float{});
    case DType::kF64:
      return work(double{});
    case DType::kBF16:
      return work(__nv_bfloat16{});
    case DType::kF16:
      return work(__half{});
    case DType::kI32:
      return work(int32_t{});
    default:
      break;
  }
  throw_error(ErrorCode::kInternal, "GPUs cannot add elements of type {}", dtype_name(dtype));
}

}  // namespace plimsoll::cuda
