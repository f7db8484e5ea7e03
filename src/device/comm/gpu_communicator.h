// Collective operations between the GPUs of a run, one GPU per rank. They are enqueued on a stream like kernels: each
// rank enqueues the same operations in the same order with the same sizes, and the calls return before the results
// exist. Thread-safety: one thread at a time may use an object; a separate thread notices the failure of a rank.
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
  int64_t count = 0;  // number of elements of the tensor
};

class GpuCommunicator {
 public:
  virtual ~GpuCommunicator() = default;

  // Enqueues one launch that replaces the elements of all tensors by their sums over the ranks. Every rank receives the same
  // bits. Types: f32, f64, bf16 and f16, the same for all tensors; each addition is rounded to this type. May be captured into a
  // CUDA graph after it has run once. Errors: kDevice, naming the rank that failed.
  virtual void all_reduce(std::span<const ReducedTensor> tensors, CudaStream stream) = 0;
  // Enqueue one launch for all tensors. reduce_scatter() sums the slice of this rank over all ranks and
  // leaves the other slices undefined. all_gather() receives the slices of the other ranks. Errors, and
  // the types of reduce_scatter(): as all_reduce(). all_gather() copies bytes, so it supports every type.
  virtual void reduce_scatter(std::span<const DividedTensor> tensors, CudaStream stream) = 0;
  virtual void all_gather(std::span<const DividedTensor> tensors, CudaStream stream) = 0;
  // Enqueues one launch in which every rank sends block r of `mine` to the rank r, and receives the block that the rank r sends to it into
  // block r of `received`. Both consist of one block of `block_bytes` per rank and do not overlap. Errors: as all_reduce().
  virtual void all_to_all(ConstView mine, View received, int64_t block_bytes, CudaStream stream) = 0;
  // Enqueues a copy of the tensor of the rank `root` to every rank. Types and errors: as all_reduce().
  virtual void broadcast(const ReducedTensor& tensor, int root, CudaStream stream) = 0;
  // Throws an error if a rank has failed. Must be called before results are used, because operations that waited for a failed rank
  // have ended without a result. Errors: kDevice, naming that rank.
  virtual void require_all_ranks() = 0;
};

// Messages between the GPUs of neighbouring pipeline stages. Sends and receives are enqueued on a stream like kernels, but must
// not be captured into a CUDA graph. Messages in one direction never wait for messages in the other direction. Thread-safety: as
// GpuCommunicator.
class GpuMessages {
 public:
  virtual ~GpuMessages() = default;
  // Enqueues three steps: wait until the stage `to` has received the previous message, copy the tensor x into the
  // send buffer `room`, and start sending this buffer. `room` must not change until the next call of send() to this
  // stage. Later work on the stream does not wait for the receiver. Errors: kDevice, naming the rank that failed.
  virtual void send(ConstView x, View room, int64_t bytes, int to, CudaStream stream) = 0;
  // Enqueues receiving the next message from the stage `from`. Errors: those of send().
  virtual void receive(View y, int64_t bytes, int from, CudaStream stream) = 0;
  // Makes the host wait until all sent messages have been received.
  virtual void wait_until_received() = 0;
  // Throws an error if a stage has failed. Must be called before received values are used, like
  // GpuCommunicator::require_all_ranks(). Errors: kDevice.
  virtual void require_all_ranks() = 0;
};

// The connections between the ranks along one axis of the mesh (data, tensor or pipeline parallelism). `ranks` connects the processes of
// these ranks. If the ranks use GPUs, their GPUs are connected by either `gpus` (NCCL) or `peers` (each GPU maps the memory of the others).
// `messages` connects pipeline stages whose GPUs do not map each other's memory.
struct AxisConnections {
  Communicator* ranks = nullptr;
  GpuCommunicator* gpus = nullptr;
  PeerMemory* peers = nullptr;
  GpuMessages* messages = nullptr;
};

// All connections of a rank with other ranks. The members are null if the run has one rank, and those of an axis are null if the
// mesh has only one rank along this axis.
struct RankConnections {
  Communicator* ranks = nullptr;  // connects all ranks of the run
  AxisConnections data = {};
  AxisConnections tensor = {};
  AxisConnections pipeline = {};  // connects the stages of a pipeline
  AxisConnections ends =
      {};  // connects the first and the last stage of a pipeline; set on the ranks of these two stages only
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
  // Calls require_all_ranks() of all connections between GPUs. Errors: kDevice if a rank has failed.
  void require_all_ranks() const {
    for_each_axis([](const AxisConnections& axis) {
      if (axis.gpus != nullptr) axis.gpus->require_all_ranks();
      if (axis.peers != nullptr) axis.peers->require_all_ranks();
      if (axis.messages != nullptr) axis.messages->require_all_ranks();
    });
  }
  // map_peers() and unmap_peers() begin and end the mapping of memory between the ranks, along every axis whose GPUs map each
  // other's memory.
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

// Connects the GPU of this process with the GPUs of all ranks through NCCL, which is opened at run time. Every rank of
// `ranks` must call this function, and `ranks` must outlive the result. `uuid` identifies the GPU, so that two ranks
// with the same GPU are found. Errors: kDevice if NCCL cannot be opened or fails; kUsage if two ranks have the same GPU.
std::unique_ptr<GpuCommunicator> connect_gpus(Communicator& ranks, int gpu_ordinal, const std::string& uuid);

// Connects the GPU of this process through NCCL with the GPUs of the stages before and after it. The ranks of
// `stages` are the stages of a pipeline, in order. Every one must call this function, and `stages` must outlive
// the result. The result replaces the function that stages.on_failure() has set. Errors: as connect_gpus().
std::unique_ptr<GpuMessages> connect_messages(Communicator& stages, int gpu_ordinal);

}  // namespace plimsoll
