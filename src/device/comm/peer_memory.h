// The memory of the GPUs of one machine as each of them sees it: every rank maps the arenas of the others, so that copies and
// kernels read them through the links between the GPUs. If all ranks have one plan, a tensor is at the same offset of each
// arena; PeersAtOffsets serves the stages of a pipeline, whose plans differ. Copies between GPUs are done by copy engines, which leave
// the multiprocessors to the computation.
//
// Ranks wait for one another without a kernel: meet() and the functions of messages enqueue writes and waits of the stream itself,
// which can be captured into a CUDA graph. Every rank is a process of its own: the driver holds locks of a process while a stream waits
// for another rank.
// Thread-safety: one thread at a time, except that a rank's failure is noticed in a thread of its own.
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

  // States whether the blocks of all ranks have one size: the stages of a pipeline have arenas of different sizes.
  enum class BlockSizes : uint8_t { kEqual, kDifferent };
  // Maps the memory of all ranks; each rank passes its own block of cudaMalloc and has to pass it before it uses the functions
  // below. The block has to exist until unmap(). Errors: kDevice if a GPU cannot map the memory of another; kInternal if
  // blocks that should have one size differ.
  virtual void map(std::byte* data, int64_t bytes, BlockSizes sizes) = 0;
  // Ends the mapping of the other ranks' memory by this rank.
  virtual void unmap() = 0;
  // Returns what has to be added to an address in the own block to get the same place in the block of another rank; 0 for the
  // own rank.
  virtual std::ptrdiff_t distance_to(int rank) const = 0;

  // The points of an operation at which ranks wait for one another. An operation meets at kBegin, then possibly at kMiddle, and at
  // kEnd, so that the marks of one operation are removed before those of the next are written.
  enum class Point : uint8_t { kBegin, kMiddle, kEnd };
  // Enqueues: tells every other rank that the work enqueued before is done, and waits until all others have told the same of
  // their work before this point. Errors: kDevice.
  virtual void meet(Point point, CudaStream stream) = 0;

  // A message is data in the memory of its sender, which the receiver copies. From one rank to another there is at most one message
  // that was announced and not yet taken. Each function enqueues one step: the sender waits until the rank `to` has taken the message
  // before, writes the data, and announces it; the receiver waits for the announcement, copies the data, and states that it has taken
  // them. Errors: kDevice.
  virtual void wait_until_taken(int to, CudaStream stream) = 0;
  virtual void announce_message(int to, CudaStream stream) = 0;
  virtual void wait_for_message(int from, CudaStream stream) = 0;
  virtual void take_message(int from, CudaStream stream) = 0;

  // Has to be called before results are used: if a rank has failed, waiting for it ends without a result. Errors: kDevice,
  // naming that rank.
  virtual void require_all_ranks() = 0;
};

// The memory of the ranks for an operation on one tensor that is at another offset of each rank's arena. Thread-safety: as the object
// that it refers to.
class PeersAtOffsets final : public PeerMemory {
 public:
  // `peers` has to outlive this object. offsets[r]: where the tensor begins in the block of rank r.
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

// Connects this rank with all others, which have to be on the same machine, through memory that their processes share. Every
// rank of `ranks`, which has to outlive the result, calls it. `uuid`: that of the GPU, by which two ranks on one GPU are
// recognised. Errors: kUsage if two ranks have the same GPU or are on different machines, or for more than kMostPeers ranks;
// kDevice.
std::unique_ptr<PeerMemory> connect_peers(Communicator& ranks, int gpu_ordinal, const std::string& uuid);

}  // namespace plimsoll
