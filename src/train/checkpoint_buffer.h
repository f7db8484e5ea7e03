// The host memory into which the state of a step is copied, and from which a checkpoint is written while training continues. The
// plan contains it (HostMemory::checkpoint_bytes). On a GPU it is pinned, so that the copies run at the full rate of the link.
// Owns its memory. Not thread-safe; the bytes may be used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "device/cpu/arena.h"
#include "device/cuda/cuda_device.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class CheckpointBuffer {
 public:
  // Makes a buffer without memory.
  CheckpointBuffer() = default;
  // Allocates the memory of the plan. Holds none if the system refuses it: the caller then saves without the buffer.
  explicit CheckpointBuffer(const Plan& plan);

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::optional<CpuArena> pageable_;  // one of these two members contains the bytes
  PinnedMemory pinned_;
  std::span<std::byte> bytes_;
};

}  // namespace plimsoll
