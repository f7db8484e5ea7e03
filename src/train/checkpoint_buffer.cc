#include "train/checkpoint_buffer.h"

namespace plimsoll {

CheckpointBuffer::CheckpointBuffer(const Plan& plan) {
  const int64_t bytes = plan.host.checkpoint_bytes;
  if (bytes == 0) return;
  try {
    if (plan.is_on_gpu()) {
      pinned_ = PinnedMemory(bytes);
      bytes_ = {pinned_.data(), static_cast<size_t>(bytes)};
    } else {
      bytes_ = {pageable_.emplace(bytes).data(), static_cast<size_t>(bytes)};
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDevice) throw;
  }
}

}  // namespace plimsoll
