// The implementations of collective operations between GPUs that link_measurement.h measures.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/comm/gpu_communicator.h"
#include "device/comm/peer_memory.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/event.h"
#include "exec/link_measurement.h"
#include "kernels/communication/all_reduce.h"
#include "kernels/communication/communication_catalog.h"
#include "kernels/communication/reduce_scatter.h"

namespace plimsoll {
namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

// Returns the number of operations that are timed together. A small operation takes a few microseconds, and events have a resolution of
// half a microsecond.
int num_timed_calls(int64_t count) {
  return count * kFloatBytes < (int64_t{1} << 20) ? 20 : 2;
}

// The base class of the two implementations of collective operations between GPUs. It owns a buffer on the GPU and measures times.
class GpuExchanger : public LinkExchanger {
 public:
  GpuExchanger(int gpu_ordinal, int64_t buffer_bytes)
      : device_(gpu_ordinal), arena_(device_, buffer_bytes, std::nullopt) {}

  void write(std::span<const float> values) override {
    device_.copy_to_device(arena_.data(), values.data(), std::ssize(values) * kFloatBytes);
    device_.synchronize();
  }
  void read(std::span<float> values) override {
    device_.copy_to_host(values.data(), arena_.data(), std::ssize(values) * kFloatBytes);
    device_.synchronize();
  }
  void run(Collective collective, int64_t count) override {
    enqueue(collective, count);
    device_.synchronize();
    require_all_ranks();
  }
  // Runs the operation once, so that the GPUs start together, and then several times, which are measured.
  // Returns the mean time of one run.
  double run_ms(Collective collective, int64_t count) override {
    const int num_calls = num_timed_calls(count);
    enqueue(collective, count);
    begin_.record(stream());
    for (int call = 0; call < num_calls; ++call) enqueue(collective, count);
    end_.record(stream());
    device_.synchronize();
    require_all_ranks();
    return static_cast<double>(end_.ms_since(begin_)) / num_calls;
  }

 protected:
  virtual void enqueue(Collective collective, int64_t count) = 0;
  virtual void require_all_ranks() = 0;

  CudaStream stream() const { return device_.stream(); }
  std::byte* data() const { return arena_.data(); }
  int64_t arena_bytes() const { return arena_.bytes(); }

 private:
  CudaDevice device_;
  CudaArena arena_;
  CudaEvent begin_{CudaEvent::Times::kYes};
  CudaEvent end_{CudaEvent::Times::kYes};
};

// Returns the size in bytes of the buffer and of the scratch memory after it. For small data
// the scratch memory is as large as the data; for larger data it may be smaller.
int64_t peers_buffer_bytes(int64_t elements, int num_ranks) {
  const int64_t scratch =
      std::max(kSmallTensorBytes, peer_scratch_bytes_of(elements, kFloatBytes, num_ranks));
  return elements * kFloatBytes + scratch + 256;
}

DividedTensor divided(const ReducedTensor& tensor, int num_ranks) {
  return {.data = tensor.data, .count = tensor.count, .slice = tensor.count / num_ranks};
}

// Collective operations between GPUs that map each other's memory, executed in the same way as in training. Training uses
// no broadcast, so it is implemented here like the other operations: by copy engines, with waits at its begin and end.
class MappedMemoryExchanger final : public GpuExchanger {
 public:
  MappedMemoryExchanger(Communicator& ranks, int gpu_ordinal, const std::string& uuid,
                        int64_t buffer_elements)
      : GpuExchanger(gpu_ordinal, peers_buffer_bytes(buffer_elements, ranks.size())),
        buffer_elements_(buffer_elements),
        peers_(connect_peers(ranks, gpu_ordinal, uuid)) {
    peers_->map(data(), arena_bytes(), PeerMemory::BlockSizes::kEqual);
  }
  LinkExchange exchange() const override { return LinkExchange::kMappedMemory; }
  bool has(Collective) const override { return true; }
  void disconnect() override { peers_->unmap(); }

 private:
  void enqueue(Collective collective, int64_t count) override {
    const ReducedTensor tensor{.data = {data(), DType::kF32}, .count = count};
    const DividedTensor slices = divided(tensor, peers_->size());
    const RankSlicesArgs args{.peers = peers_.get(), .tensors = {&slices, 1}, .scratch = scratch()};
    switch (collective) {
      case Collective::kAllReduce:
        return all_reduce_cuda_peers({.peers = peers_.get(), .tensors = {&tensor, 1}, .scratch = scratch()},
                                     stream());
      case Collective::kReduceScatter:
        return reduce_scatter_cuda_peers(args, stream());
      case Collective::kAllGather:
        return all_gather_cuda_peers(args, stream());
      case Collective::kBroadcast:
        return broadcast(count * kFloatBytes);
    }
  }
  void require_all_ranks() override { peers_->require_all_ranks(); }

  // Returns the scratch memory, which begins where the buffer ends, rounded up to a multiple of 256 bytes.
  View scratch() const {
    const int64_t begin = (buffer_elements_ * kFloatBytes + 255) / 256 * 256;
    return {data() + begin, DType::kU8};
  }

  void broadcast(int64_t bytes) {
    peers_->meet(PeerMemory::Point::kBegin, stream());
    if (peers_->rank() != 0) {
      PLIMSOLL_CUDA(cudaMemcpyAsync(data(), data() + peers_->distance_to(0), static_cast<size_t>(bytes),
                                    cudaMemcpyDeviceToDevice, stream()));
    }
    peers_->meet(PeerMemory::Point::kEnd, stream());
  }

  int64_t buffer_elements_;
  std::unique_ptr<PeerMemory> peers_;
};

class NcclExchanger final : public GpuExchanger {
 public:
  NcclExchanger(Communicator& ranks, int gpu_ordinal, const std::string& uuid, LinkExchange exchange,
                int64_t buffer_elements)
      : GpuExchanger(gpu_ordinal, buffer_elements * kFloatBytes),
        num_ranks_(ranks.size()),
        exchange_(exchange),
        gpus_(connect_gpus(ranks, gpu_ordinal, uuid)) {}

  LinkExchange exchange() const override { return exchange_; }
  bool has(Collective) const override { return true; }

 private:
  void enqueue(Collective collective, int64_t count) override {
    const ReducedTensor tensor{.data = {data(), DType::kF32}, .count = count};
    const DividedTensor slices = divided(tensor, num_ranks_);
    switch (collective) {
      case Collective::kAllReduce:
        return gpus_->all_reduce({&tensor, 1}, stream());
      case Collective::kReduceScatter:
        return gpus_->reduce_scatter({&slices, 1}, stream());
      case Collective::kAllGather:
        return gpus_->all_gather({&slices, 1}, stream());
      case Collective::kBroadcast:
        return gpus_->broadcast(tensor, 0, stream());
    }
  }
  void require_all_ranks() override { gpus_->require_all_ranks(); }

  int num_ranks_;
  LinkExchange exchange_;
  std::unique_ptr<GpuCommunicator> gpus_;
};

}  // namespace

std::unique_ptr<LinkExchanger> mapped_memory_exchanger(Communicator& ranks, int gpu_ordinal,
                                                       const std::string& uuid, int64_t buffer_elements) {
  return std::make_unique<MappedMemoryExchanger>(ranks, gpu_ordinal, uuid, buffer_elements);
}

std::unique_ptr<LinkExchanger> nccl_exchanger(Communicator& ranks, int gpu_ordinal, const std::string& uuid,
                                              LinkExchange exchange, int64_t buffer_elements) {
  return std::make_unique<NcclExchanger>(ranks, gpu_ordinal, uuid, exchange, buffer_elements);
}

}  // namespace plimsoll
