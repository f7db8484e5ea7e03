// Tests send and receive between all visible GPUs, at least two, with a process per GPU. Every message must arrive byte for byte.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "kernels/communication/message.h"
#include "kernels/communication/testing/gpu_ranks.h"

namespace plimsoll::test {
namespace {

constexpr size_t kMostBytes = 700'001;
constexpr size_t kRoom = size_t{1} << 20;
constexpr int kMessages = 3;

// Offsets in the memory block of a rank. kSent is that of the message that the rank sends to the next rank, kReceived that of the message
// that it receives from the previous rank, and room_of() returns that of its send buffer, which differs between the ranks.
constexpr size_t kSent = 0, kReceived = kRoom;
size_t room_of(int rank) {
  return (2 + static_cast<size_t>(rank)) * kRoom;
}
size_t block_bytes(int rank) {
  return room_of(rank) + kRoom;
}

std::vector<std::byte> bytes_of(int rank, int number, size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i)
    message[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(number * 31 + rank * 101)) % 251);
  return message;
}

// Sends messages around the ring of all ranks, first by launches and then by a captured CUDA graph.
void check_ring(PeerMemory& peers, std::byte* device, size_t bytes, CudaStream stream) {
  const int rank = peers.rank(), next = (rank + 1) % peers.size(),
            before = (rank + peers.size() - 1) % peers.size();
  const SendArgs sent{.peers = &peers,
                      .x = ConstView{device + kSent, DType::kU8},
                      .room = {device + room_of(rank), DType::kU8},
                      .bytes = static_cast<int64_t>(bytes),
                      .peer = next};
  const ReceiveArgs received{
      .peers = &peers,
      .room = ConstView{device + room_of(before) + peers.distance_to(before), DType::kU8},
      .y = {device + kReceived, DType::kU8},
      .bytes = static_cast<int64_t>(bytes),
      .peer = before};
  const auto exchange = [&] {
    send_cuda_peers(sent, stream);
    // Overwrites x after the send. This must not change the message, because it is sent from the send buffer `room`.
    PLIMSOLL_CUDA(cudaMemsetAsync(device + kSent, 255, bytes, stream));
    receive_cuda_peers(received, stream);
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const PinnedMemory pinned(static_cast<int64_t>(bytes));
  for (int number = 0; number < 2 * kMessages; ++number) {
    std::ranges::copy(bytes_of(rank, number, bytes), pinned.data());
    PLIMSOLL_CUDA(cudaMemcpyAsync(device + kSent, pinned.data(), bytes, cudaMemcpyHostToDevice, stream));
    if (number == kMessages) {
      PLIMSOLL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      exchange();
      PLIMSOLL_CUDA(cudaStreamEndCapture(stream, &graph));
      PLIMSOLL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    }
    if (executable == nullptr) {
      exchange();
    } else {
      PLIMSOLL_CUDA(cudaGraphLaunch(executable, stream));
    }
    PLIMSOLL_CUDA(cudaMemcpyAsync(pinned.data(), device + kReceived, bytes, cudaMemcpyDeviceToHost, stream));
    PLIMSOLL_CUDA(cudaStreamSynchronize(stream));
    const std::vector<std::byte> found(pinned.data(), pinned.data() + bytes);
    EXPECT_TRUE(found == bytes_of(before, number, bytes))
        << "message " << number << " of " << bytes << " bytes";
  }
  PLIMSOLL_CUDA(cudaGraphExecDestroy(executable));
  PLIMSOLL_CUDA(cudaGraphDestroy(graph));
}

// Runs only in the processes, one per GPU, that MessageCuda.ArrivesAtTheOtherGpus starts.
TEST(MessageCudaRank, SendsToTheNextRank) {
  const RankPlace place = place_of_this_process();
  if (place.is_alone()) GTEST_SKIP() << "MessageCuda.ArrivesAtTheOtherGpus starts processes that run it";
  const std::unique_ptr<Communicator> ranks = connect_ranks(place);
  CudaDevice device(place.rank);
  const GpuBlock block(block_bytes(place.rank));
  const std::unique_ptr<PeerMemory> peers = connect_peers(*ranks, place.rank, device.info().uuid);
  peers->map(block.data(), static_cast<int64_t>(block_bytes(place.rank)), PeerMemory::BlockSizes::kDifferent);
  for (const size_t bytes : {size_t{1}, size_t{1000}, kMostBytes})
    check_ring(*peers, block.data(), bytes, device.stream());
  for (int peer = 0; peer < place.size; ++peer) {
    if (peer != place.rank) peers->wait_until_taken(peer, device.stream());
  }
  device.synchronize();
  peers->require_all_ranks();
  ranks->barrier();
  peers->unmap();
  ranks->barrier();
}

TEST(MessageCuda, ArrivesAtTheOtherGpus) {
  const size_t num_ranks = visible_cuda_devices().size();
  if (num_ranks < 2) GTEST_SKIP() << "at least two GPUs map each other's memory, and one is visible";
  run_on_gpus_of_processes(num_ranks, "MessageCudaRank.*");
}

}  // namespace
}  // namespace plimsoll::test
