// A buffer in host memory. The state of a step is copied into it, so that a checkpoint can be written from it while training continues.
// Its size is part of the plan (HostMemory::checkpoint_bytes). On a GPU it is pinned, so that the copies run at the full rate of the
// link. Owns its memory. Not thread-safe; the bytes may be used by one thread at a time.
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
  // Creates a buffer without memory.
  CheckpointBuffer() = default;
  // Allocates the memory that the plan states. If the system refuses the memory, the buffer stays empty and checkpoints are saved without
  // it.
  explicit CheckpointBuffer(const Plan& plan);

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::optional<CpuArena> pageable_;  // One of these two members owns the memory.
  PinnedMemory pinned_;
  std::span<std::byte> bytes_;
};

}  // namespace plimsoll
