// A list of tensors that is passed as a parameter of a kernel: no table in device memory is needed, and one launch handles some hundreds of
// tensors. Tensors are divided into chunks of equal length, which are numbered through the whole list; a thread block finds the tensor of a
// chunk by binary search. Only for .cu files. Thread-safe: no state.
#pragma once

#include <cstdint>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll::cuda {

// The number of bytes of a table: the size limit of kernel parameters since CUDA 12.1 on compute capability 7.0 and later, minus some space
// for the other parameters.
inline constexpr int64_t kTableBytes = 32764 - 256;

// The capacity of the small table, for short lists such as a single parameter that is updated during the backward pass. A launch copies the
// whole table, so a small one saves time.
inline constexpr int kSmallTable = 8;
template <class Entry>
inline constexpr int kLargeTable = static_cast<int>((kTableBytes - 16) / static_cast<int64_t>(sizeof(Entry)));

// Returns the index i of the last tensor whose first chunk, first_chunk_of(i), is at most `chunk`. Requires: the first chunk of the first
// tensor is at most `chunk`, and first chunks do not decrease from tensor to tensor.
template <class FirstChunkOf>
__device__ __forceinline__ int last_at_most(const FirstChunkOf& first_chunk_of, int num_entries,
                                            uint32_t chunk) {
  int low = 0;
  int high = num_entries;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_chunk_of(middle) <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// A table of tensors. Entry is any type with a member `uint32_t first_chunk`.
template <class Entry, int kEntries>
struct TensorTable {
  static constexpr int kCapacity = kEntries;
  int32_t num_entries = 0;
  int32_t first_index = 0;  // the index of entry 0's tensor in the list of the caller
  uint32_t num_chunks = 0;
  Entry entries[kCapacity];

  // Returns the index of the entry that contains a chunk. Requires: chunk < num_chunks.
  __device__ __forceinline__ int find(uint32_t chunk) const {
    return last_at_most([this](int i) { return entries[i].first_chunk; }, num_entries, chunk);
  }
};

// Implements for_each_table() with tables of kEntries entries.
template <class Entry, int kEntries, class Make, class Launch>
void for_each_table_of(std::span<const OptimizerTensor> tensors, int64_t chunk_elements, const Make& make,
                       const Launch& launch) {
  size_t next = 0;
  do {
    TensorTable<Entry, kEntries> table;
    table.first_index = narrow<int32_t>(next);
    int64_t chunks = 0;
    for (; next < tensors.size() && table.num_entries < table.kCapacity; ++next) {
      Entry& entry = table.entries[table.num_entries++];
      entry = make(tensors[next]);
      entry.first_chunk = narrow<uint32_t>(chunks);
      chunks += ceil_div(tensors[next].count, chunk_elements);
    }
    table.num_chunks = narrow<uint32_t>(chunks);
    launch(table);
  } while (next < tensors.size());
}

// Divides a list of tensors into as few tables as possible and calls launch(table) for each of them, at least once. make(tensor) must
// return an entry without its first_chunk. A tensor without elements also gets an entry, which has no chunks, so that entry i of a table
// always belongs to tensor first_index + i of the list.
template <class Entry, class Make, class Launch>
void for_each_table(std::span<const OptimizerTensor> tensors, int64_t chunk_elements, const Make& make,
                    const Launch& launch) {
  if (tensors.size() <= kSmallTable) {
    for_each_table_of<Entry, kSmallTable>(tensors, chunk_elements, make, launch);
  } else {
    for_each_table_of<Entry, kLargeTable<Entry>>(tensors, chunk_elements, make, launch);
  }
}

// A scalar in device memory, or the default value `otherwise` if there is no such scalar.
struct OptionalScalar {
  Scalar scalar = {};
  double otherwise = 1.0;

  __device__ __forceinline__ double get() const { return scalar.data == nullptr ? otherwise : scalar.get(); }
};
inline OptionalScalar optional_scalar(const char* kernel, const char* name, const ConstView& view) {
  if (!view) return {};
  return {scalar_of(kernel, name, view), 1.0};
}

}  // namespace plimsoll::cuda
