// The sizes of the transfers between memory and a scratch file (base/file.h), which the plan counts and the executor uses.
#pragma once

#include <cstdint>

namespace plimsoll {

// A transfer consists of pieces of at most kTransferPieceBytes. A thread transfers one piece at a time, through its own buffer of whole
// disk blocks, so that a value may have any size and any address in memory, including that of a GPU. As many threads read as write, and
// together they keep eight requests in the queue of the disk. On a virtual disk of 0.9 GB/s, 1, 4 and 8 requests of 1 MiB wrote 0.5, 0.8
// and 1.3 GB/s.
inline constexpr int64_t kTransferPieceBytes = int64_t{512} << 10;
inline constexpr int64_t kThreadsPerDirection = 4;

// The buffers of all threads, and one more buffer for checkpoints, which read and write only a part of a value at a time. They are in host
// memory, which is pinned for a GPU.
inline constexpr int64_t kDiskBuffersBytes = (2 * kThreadsPerDirection + 1) * kTransferPieceBytes;

}  // namespace plimsoll
