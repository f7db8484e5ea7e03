// Access to the memory of the other GPUs of one machine. Every rank maps the arenas (memory blocks) of the other ranks, so that
// copies and kernels can read them through the links between the GPUs. If all ranks have the same plan, a tensor has the same
// offset in each arena. The stages of a pipeline have different plans and use PeersAtOffsets. Data is copied between GPUs by copy
// engines, so that all multiprocessors remain available for the computation.
//
// Ranks wait for each other without a kernel: meet() and the functions for messages enqueue memory writes and waits on the
// stream, which can be captured into a CUDA graph. Every rank must be a separate process, because the driver holds locks of the
// process while a stream waits for another rank. Thread-safety: one thread at a time, except that the failure of a rank is
// noticed in a separate thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/comm/communicator.h"
#include "device/cuda/stream.h"
#include "hardware/gpu_constant.h"

namespace plimsoll {

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // States whether the memory blocks of all ranks have equal sizes. In a pipeline they do not, because each stage has its own memory plan.
  enum class BlockSizes : uint8_t { kEqual, kDifferent };
  // Maps the memory of all ranks. Each rank passes a block that it allocated with cudaMalloc, before it uses the functions below. The block
  // must exist until unmap(). Errors: kDevice if a GPU cannot map the memory of another GPU; kInternal if the sizes of the blocks differ
  // although `sizes` is kEqual.
  virtual void map(std::byte* data, int64_t bytes, BlockSizes sizes) = 0;
  // Ends the mapping of the other ranks' memory by this rank.
  virtual void unmap() = 0;
  // Returns the difference between an address in the block of `rank` and the corresponding address in the block of this rank; 0 for this
  // rank itself.
  virtual std::ptrdiff_t distance_to(int rank) const = 0;

  // The points of an operation at which the ranks wait for one another. Every operation has kBegin and kEnd, and some have kMiddle. At each
  // point a rank sets marks in shared memory, and the ranks that wait for these marks reset them. Waiting at kEnd ensures that all marks of
  // kBegin and kMiddle are reset before the next operation sets them again.
  enum class Point : uint8_t { kBegin, kMiddle, kEnd };
  // Enqueues a meeting of all ranks at a point of an operation: tells the other ranks that all work that this rank enqueued
  // before is done, and waits until they have said the same. Errors: kDevice.
  virtual void meet(Point point, CudaStream stream) = 0;

  // A message is data in the memory of its sender, which the receiver copies. Between two ranks, at most one message per direction is
  // announced and not yet taken. Each function enqueues one step. The sender waits until the rank `to` has taken the previous message,
  // writes the data, and announces the message. The receiver waits for the announcement, copies the data, and marks the message as taken.
  // Errors: kDevice.
  virtual void wait_until_taken(int to, CudaStream stream) = 0;
  virtual void announce_message(int to, CudaStream stream) = 0;
  virtual void wait_for_message(int from, CudaStream stream) = 0;
  virtual void take_message(int from, CudaStream stream) = 0;

  // Throws an error if a rank has failed. Must be called before results are used, because waits for a failed rank have ended without
  // a result. Errors: kDevice, naming that rank.
  virtual void require_all_ranks() = 0;
};

// Gives access to one tensor in the memory of the other ranks if its offset in the arena differs
// from rank to rank. Thread-safety: as the PeerMemory object that it refers to.
class PeersAtOffsets final : public PeerMemory {
 public:
  // `peers` must outlive this object. offsets[r]: the offset of the tensor in the block of rank r.
  PeersAtOffsets(PeerMemory& peers, std::vector<int64_t> offsets)
      : peers_(peers), offsets_(std::move(offsets)) {}

  int rank() const override { return peers_.rank(); }
  int size() const override { return peers_.size(); }
  void map(std::byte* data, int64_t bytes, BlockSizes sizes) override { peers_.map(data, bytes, sizes); }
  void unmap() override { peers_.unmap(); }
  std::ptrdiff_t distance_to(int rank) const override {
    return peers_.distance_to(rank) + offsets_.at(static_cast<size_t>(rank)) -
           offsets_.at(static_cast<size_t>(peers_.rank()));
  }
  void meet(Point point, CudaStream stream) override { peers_.meet(point, stream); }
  void wait_until_taken(int to, CudaStream stream) override { peers_.wait_until_taken(to, stream); }
  void announce_message(int to, CudaStream stream) override { peers_.announce_message(to, stream); }
  void wait_for_message(int from, CudaStream stream) override { peers_.wait_for_message(from, stream); }
  void take_message(int from, CudaStream stream) override { peers_.take_message(from, stream); }
  void require_all_ranks() override { peers_.require_all_ranks(); }

 private:
  PeerMemory& peers_;
  std::vector<int64_t> offsets_;
};

// Connects this rank with all others, which must be on the same machine, through memory that their processes share. Every rank of `ranks`
// must call it, and `ranks` must outlive the result. `uuid`: the identifier of the GPU, by which two ranks with the same GPU are
// recognized. Errors: kUsage if two ranks have the same GPU or are on different machines, or for more than kMostPeers ranks; kDevice.
std::unique_ptr<PeerMemory> connect_peers(Communicator& ranks, int gpu_ordinal, const std::string& uuid);

}  // namespace plimsoll
