// The sizes of a transfer between memory and a scratch file (base/file.h), which the plan reserves and the executor uses.
// Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/file.h"

namespace plimsoll {

// A transfer consists of pieces of at most kTransferPieceBytes, and each piece passes through a buffer of whole blocks at a
// multiple of kBlockBytes, so that values may have any size and any place in memory. A transfer has as many pieces under
// way as it has buffers. One read and one write at a time therefore keep eight requests in the queue of the disk. On a
// virtual disk of 0.9 GB/s, 1, 4 and 8 requests of 1 MiB wrote 0.5, 0.8 and 1.3 GB/s.
inline constexpr int64_t kTransferPieceBytes = int64_t{512} << 10;
inline constexpr int64_t kBuffersPerTransfer = 4;

// Returns the size of each buffer of a transfer whose largest part has this many bytes: a part that begins in the middle of
// a block reaches into one block more.
constexpr int64_t transfer_buffer_bytes(int64_t largest_part_bytes) {
  return std::min(kTransferPieceBytes, rounded_up_to_blocks(largest_part_bytes) + kBlockBytes);
}

// Returns the bytes of all buffers of a transfer, and of the gap before the first one.
constexpr int64_t transfer_scratch_bytes(int64_t largest_part_bytes) {
  return kBuffersPerTransfer * transfer_buffer_bytes(largest_part_bytes) + kBlockBytes;
}

}  // namespace plimsoll
