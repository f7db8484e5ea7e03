// Collective operations between the GPUs of a run, one GPU per rank. They are enqueued on a stream like kernels: each rank
// enqueues the same operations in the same order with the same sizes, and the calls return before the results exist.
// Thread-safety: one thread at a time, except that a rank's failure is noticed in a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/rank_mesh.h"
#include "base/view.h"
#include "device/comm/communicator.h"
#include "device/comm/divided_tensor.h"
#include "device/comm/peer_memory.h"
#include "device/cuda/stream.h"

namespace plimsoll {

// A tensor whose elements are summed over the ranks.
struct ReducedTensor {
  View data;
  int64_t count = 0;  // elements
};

class GpuCommunicator {
 public:
  virtual ~GpuCommunicator() = default;

  // Enqueues one launch that replaces the elements of all tensors by their sums over the ranks. Every rank receives the same
  // bits. Types: f32, f64, bf16 and f16, one for all tensors; each addition is rounded to this type. May be captured into a
  // CUDA graph after it has run once. Errors: kDevice, naming the rank that failed.
  virtual void all_reduce(std::span<const ReducedTensor> tensors, CudaStream stream) = 0;
  // Enqueue one launch for all tensors: reduce_scatter sums the slice of this rank and leaves the others undefined, all_gather
  // receives the slices of the others. Types of reduce_scatter and errors: as all_reduce(); all_gather copies bytes.
  virtual void reduce_scatter(std::span<const DividedTensor> tensors, CudaStream stream) = 0;
  virtual void all_gather(std::span<const DividedTensor> tensors, CudaStream stream) = 0;
  // Enqueues a copy of the tensor of the rank `root` to every rank. Types and errors: as all_reduce().
  virtual void broadcast(const ReducedTensor& tensor, int root, CudaStream stream) = 0;
  // Has to be called before results are used: if a rank has failed, the operations that waited for it end without a result.
  // Errors: kDevice, naming that rank.
  virtual void require_all_ranks() = 0;
};

// Messages from the GPU of a stage of a pipeline to those of the stages before and after it. They are enqueued on a stream like
// kernels, but must not be captured into a CUDA graph. Messages in one direction never wait for those in the other one.
// Thread-safety: as GpuCommunicator.
class GpuMessages {
 public:
  virtual ~GpuMessages() = default;
  // Enqueues: waits until the stage `to` has received the message before, copies x into `room`, and starts to send `room`, which must
  // not change until the next send to this stage. The work that follows on the stream does not wait for the receiver. Errors:
  // kDevice, naming the rank that failed.
  virtual void send(ConstView x, View room, int64_t bytes, int to, CudaStream stream) = 0;
  // Enqueues: receives the next message from the stage `from`. Errors: as send().
  virtual void receive(View y, int64_t bytes, int from, CudaStream stream) = 0;
  // Waits on the host until everything that was sent has been received.
  virtual void wait_until_received() = 0;
  // Has to be called before received values are used, like GpuCommunicator::require_all_ranks(). Errors: kDevice.
  virtual void require_all_ranks() = 0;
};

// The connections of a rank along an axis of the mesh. On GPUs there is, besides that between the processes, one of the two between
// the GPUs, unless the axis has one rank. Along a pipeline without mapped memory there are also connections for messages.
struct AxisConnections {
  Communicator* ranks = nullptr;
  GpuCommunicator* gpus = nullptr;
  PeerMemory* peers = nullptr;
  GpuMessages* messages = nullptr;
};

// The connections of a rank to the others. A run of one rank has none, and a run has none along axes that its mesh does not have.
struct RankConnections {
  Communicator* ranks = nullptr;  // to all ranks
  AxisConnections data = {};
  AxisConnections tensor = {};
  AxisConnections pipeline = {};  // to the stages of a pipeline
  AxisConnections ends = {};      // between the first and the last stage of a pipeline, which have it
  const AxisConnections& of(MeshAxis axis) const {
    switch (axis) {
      case MeshAxis::kData:
        break;
      case MeshAxis::kTensor:
        return tensor;
      case MeshAxis::kPipeline:
        return pipeline;
      case MeshAxis::kEnds:
        return ends;
    }
    return data;
  }
  // Errors: kDevice if a rank has failed.
  void require_all_ranks() const {
    for_each_axis([](const AxisConnections& axis) {
      if (axis.gpus != nullptr) axis.gpus->require_all_ranks();
      if (axis.peers != nullptr) axis.peers->require_all_ranks();
      if (axis.messages != nullptr) axis.messages->require_all_ranks();
    });
  }
  // Call PeerMemory::map() and unmap() along each axis whose GPUs map each other's memory.
  void map_peers(std::byte* memory, int64_t bytes) const {
    const auto map = [&](const AxisConnections& axis, PeerMemory::BlockSizes sizes) {
      if (axis.peers != nullptr) axis.peers->map(memory, bytes, sizes);
    };
    for (const AxisConnections* axis : {&data, &tensor}) map(*axis, PeerMemory::BlockSizes::kEqual);
    for (const AxisConnections* axis : {&pipeline, &ends}) map(*axis, PeerMemory::BlockSizes::kDifferent);
  }
  void unmap_peers() const {
    for_each_axis([](const AxisConnections& axis) {
      if (axis.peers != nullptr) axis.peers->unmap();
    });
  }

 private:
  template <typename Work>
  void for_each_axis(const Work& work) const {
    for (const AxisConnections* axis : {&data, &tensor, &pipeline, &ends}) work(*axis);
  }
};

// Connects the GPU of this process with those of all ranks through NCCL, which is opened at run time. Every rank of `ranks`
// calls it. `ranks` has to outlive the result. `uuid`: that of the GPU, by which two ranks on one GPU are recognised.
// Errors: kDevice if NCCL cannot be opened or fails; kUsage if two ranks have the same GPU.
std::unique_ptr<GpuCommunicator> connect_gpus(Communicator& ranks, int gpu_ordinal, const std::string& uuid);

// Connects the GPU of this process with those of the stages before and after it through NCCL. Every rank of `stages`, the stages of a
// pipeline in their order, calls it. `stages` has to outlive the result and has no other function on failure. Errors: as
// connect_gpus().
std::unique_ptr<GpuMessages> connect_messages(Communicator& stages, int gpu_ordinal);

}  // namespace plimsoll
