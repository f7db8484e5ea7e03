// A list of tensors as a kernel's own parameter: no table in device memory, one launch for some hundreds of
// tensors. Tensors are cut into chunks of equal length, numbered through the list; a block finds a chunk's
// tensor by binary search. Only for .cu files. Thread-safe: no state.
#pragma once

#include <cstdint>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll::cuda {

// What a launch may take as parameters since CUDA 12.1 on compute capability 7.0 and later, less some room
// for what stands beside the table.
inline constexpr int64_t kTableBytes = 32764 - 256;

// Short lists, such as the one parameter whose gradient has just become known, go with a small table: a
// launch copies all of its parameters.
inline constexpr int kSmallTable = 8;
template <class Entry>
inline constexpr int kLargeTable = static_cast<int>((kTableBytes - 16) / static_cast<int64_t>(sizeof(Entry)));

// The last of the tensors whose first chunk, first_chunk_of(i), is at most this. Requires: that of the first
// is, and they do not fall.
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

// Entry: anything with `uint32_t first_chunk`.
template <class Entry, int kEntries>
struct TensorTable {
  static constexpr int kCapacity = kEntries;
  int32_t num_entries = 0;
  int32_t first_index = 0;  // of entry 0 in the caller's list
  uint32_t num_chunks = 0;
  Entry entries[kCapacity];

  // The entry that a chunk belongs to. Requires: chunk < num_chunks.
  __device__ __forceinline__ int find(uint32_t chunk) const {
    return last_at_most([this](int i) { return entries[i].first_chunk; }, num_entries, chunk);
  }
};

// for_each_table with tables of one size.
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

// Calls launch(table) with as many tensors as a table holds, at least once. make(tensor) gives an entry
// without its first_chunk. Tensors without elements get an entry without chunks, so that entries count like
// the list.
template <class Entry, class Make, class Launch>
void for_each_table(std::span<const OptimizerTensor> tensors, int64_t chunk_elements, const Make& make,
                    const Launch& launch) {
  if (tensors.size() <= kSmallTable) {
    for_each_table_of<Entry, kSmallTable>(tensors, chunk_elements, make, launch);
  } else {
    for_each_table_of<Entry, kLargeTable<Entry>>(tensors, chunk_elements, make, launch);
  }
}

// A number that may be absent.
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
