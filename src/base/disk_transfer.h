// The sizes of transfers between memory and a scratch file (base/file.h). The plan counts the memory for them, and the executor
// performs them.
#pragma once

#include <cstdint>

namespace plimsoll {

// A value is transferred in pieces of at most kTransferPieceBytes. Each thread transfers one piece at a time through its own
// buffer, which consists of whole disk blocks. A value may therefore have any size and any address in memory, including that of a
// GPU. kThreadsPerDirection threads read and the same number write, which together keep eight requests in the queue of the disk.
// On a virtual disk of 0.9 GB/s, 1, 4 and 8 requests of 1 MiB wrote 0.5, 0.8 and 1.3 GB/s.
inline constexpr int64_t kTransferPieceBytes = int64_t{512} << 10;
inline constexpr int64_t kThreadsPerDirection = 4;

// The size of all transfer buffers together: one per thread, and one more for checkpoints, which read and write parts of
// values. The buffers are in host memory, which is pinned if a GPU is used.
inline constexpr int64_t kDiskBuffersBytes = (2 * kThreadsPerDirection + 1) * kTransferPieceBytes;

}  // namespace plimsoll
