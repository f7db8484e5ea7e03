// Distributes element-wise work over threads in chunks of a fixed number of elements, or of rows with about
// that many elements. The results do not depend on the chunks. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cpu/parallel.h"

namespace plimsoll {

// The number of elements per chunk. It is so large that passing a chunk to a thread (about 1 us) costs little compared with moving its
// elements (about 20 us), and so small that a chunk of three fp32 operands fits into the second-level cache of a core. It is a multiple of
// every vector width.
inline constexpr int64_t kElementsPerChunk = 32768;

// Calls body(begin, end) for each chunk of [0, n).
template <class Body>
void for_each_chunk(int64_t n, const Body& body) {
  parallel_for((n + kElementsPerChunk - 1) / kElementsPerChunk, [&](int64_t chunk, int) {
    const int64_t begin = chunk * kElementsPerChunk;
    body(begin, std::min(n, begin + kElementsPerChunk));
  });
}

// Calls body(row) for each of T rows of C elements.
template <class Body>
void for_each_row(int64_t T, int64_t C, const Body& body) {
  const int64_t rows = std::max<int64_t>(1, kElementsPerChunk / std::max<int64_t>(C, 1));
  parallel_for((T + rows - 1) / rows, [&](int64_t chunk, int) {
    const int64_t end = std::min(T, (chunk + 1) * rows);
    for (int64_t row = chunk * rows; row < end; ++row) body(row);
  });
}

}  // namespace plimsoll
