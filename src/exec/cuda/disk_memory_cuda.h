// The memory of a GPU for transfers from and to a disk (exec/disk_transfers.h): pinned buffers, a stream per thread, and events
// that mark the work before which a transfer may not start. Only for the CUDA backend; thread-safe as TransferMemory requires.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "base/disk_transfer.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/event.h"
#include "exec/disk_transfers.h"

namespace plimsoll {

class CudaTransferMemory final : public TransferMemory {
 public:
  // Transfers wait for the work on the stream `ops`. `most` is the largest number of transfers in one forward pass, backward pass
  // or update.
  CudaTransferMemory(int ordinal, CudaStream ops, size_t most)
      : ordinal_(ordinal), ops_(ops), buffers_(kDiskBuffersBytes), streams_(2 * kThreadsPerDirection) {
    points_.reserve(most);
    for (size_t i = 0; i < most; ++i) points_.emplace_back(CudaEvent::Times::kNo, CudaEvent::Waits::kAsleep);
  }

  std::byte* buffers() const override { return buffers_.data(); }
  void begin_thread() override { PLIMSOLL_CUDA(cudaSetDevice(ordinal_)); }
  void mark(size_t point) override { points_[point].record(ops_); }
  void wait_for(size_t point) const override { points_[point].wait(); }
  void copy(size_t thread, std::byte* to, const std::byte* from, int64_t bytes) override {
    const CudaStream stream = streams_[thread].get();
    PLIMSOLL_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream));
    PLIMSOLL_CUDA(cudaStreamSynchronize(stream));
  }

 private:
  int ordinal_;
  CudaStream ops_;
  PinnedMemory buffers_;
  std::vector<CudaSideStream> streams_;  // one stream per thread that transfers data
  std::vector<CudaEvent> points_;
};

}  // namespace plimsoll
