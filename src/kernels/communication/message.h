// Messages from one rank to another, between the stages of a pipeline.
// send: waits until the rank `peer` has received the previous message in the channel, copies x into the send buffer `room`, and starts to
// send the buffer. receive: y = the next message of the channel from the rank `peer`. On a CPU a channel is one of several numbered message
// queues between two ranks (RankChannel). With mapped memory, the receiver copies the message from the send buffer of the sender.
//
// Shapes and types: any; both ranks state the same number of bytes. Nothing is computed: the bits are those of x. Aliasing: x and `room` do
// not overlap. `room` must not change until the next send to the peer begins. Scratch: none. Repeatable. Cost: the bytes are sent over the
// link once. Errors: kDevice, as Communicator::send().
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/comm/communicator.h"
#include "device/comm/gpu_communicator.h"
#include "device/comm/peer_memory.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct SendArgs {
  Communicator* communicator = nullptr;  // connects the ranks for the kernels on a CPU
  PeerMemory* peers = nullptr;           // the mapped memory of the other GPUs, for send_cuda_peers
  GpuMessages* messages = nullptr;       // connects the ranks for send_cuda_nccl
  ConstView x = {};
  View room = {};
  int64_t bytes = 0;
  int peer = 0;
  int64_t channel = 0;  // the number of the communicator's channel; used only on a CPU
};
struct ReceiveArgs {
  Communicator* communicator = nullptr;  // connects the ranks for the kernels on a CPU
  PeerMemory* peers = nullptr;           // the mapped memory of the other GPUs, for receive_cuda_peers
  GpuMessages* messages = nullptr;       // connects the ranks for receive_cuda_nccl
  // The send buffer of the sender, at the address where this rank maps it. Only receive_cuda_peers uses it.
  ConstView room = {};
  View y = {};
  int64_t bytes = 0;
  int peer = 0;
  int64_t channel = 0;  // the number of the communicator's channel; used only on a CPU
};

// Send and receive on a CPU. They copy a message as one block of memory.
void send_cpu(const SendArgs& args);
void receive_cpu(const ReceiveArgs& args);
// The reference implementations of send and receive. They copy a message byte by byte.
void send_ref(const SendArgs& args);
void receive_ref(const ReceiveArgs& args);
// Copy a message by copy engines: send_cuda_peers() into the send buffer, and receive_cuda_peers() from that buffer, which the GPU of the
// receiver maps. While the stream waits for the other rank, no kernel occupies the GPU.
void send_cuda_peers(const SendArgs& args, CudaStream stream);
void receive_cuda_peers(const ReceiveArgs& args, CudaStream stream);
// Send and receive a message through NCCL.
void send_cuda_nccl(const SendArgs& args, CudaStream stream);
void receive_cuda_nccl(const ReceiveArgs& args, CudaStream stream);

}  // namespace plimsoll
