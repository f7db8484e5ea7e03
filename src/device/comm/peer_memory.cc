#include "device/comm/peer_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "device/comm/different_gpus.h"
#include "device/comm/rank_failure.h"
#include "device/cuda/cuda_error.h"

namespace plimsoll {
namespace {

using BatchMemOp = CUresult (*)(CUstream, unsigned int, CUstreamBatchMemOpParams*, unsigned int);

// Returns the driver function cuStreamBatchMemOp. It is looked up at run time, because the program is not linked with the driver library.
BatchMemOp batch_mem_op() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  PLIMSOLL_CUDA(
      cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &function, 12000, cudaEnableDefault, &result));
  PLIMSOLL_CHECK(result == cudaDriverEntryPointSuccess,
                 "the CUDA driver does not provide the function cuStreamBatchMemOp");
  return reinterpret_cast<BatchMemOp>(function);
}

// Memory that all processes of the run on this machine share, and that their GPUs read and write. It contains marks: numbers with which
// ranks wait for each other. A mark is set by one rank and awaited by one other, has its own cache line, and is initially 0.
class SharedMarks {
 public:
  // Each rank has one mark of each kind for every other rank. The first three kinds state that this rank has reached the begin, middle or
  // end of an operation. kMessage states that a message of this rank to the other rank is complete, and kUntaken that the other rank has
  // not taken this message yet.
  enum class Mark : uint8_t { kBegin, kMiddle, kEnd, kMessage, kUntaken };
  static constexpr size_t kNumMarks = 5;
  static Mark mark_of(PeerMemory::Point point) { return static_cast<Mark>(point); }

  explicit SharedMarks(Communicator& ranks) : num_ranks_(ranks.size()) {
    char name[64] = {};
    if (ranks.rank() == 0) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
      std::snprintf(name, sizeof name, "/plimsoll-%d-%llx", getpid(), static_cast<unsigned long long>(now));
      open_block(name, O_CREAT | O_EXCL | O_RDWR);
    }
    ranks.broadcast(std::as_writable_bytes(std::span(name)), 0);
    std::string failure;
    if (ranks.rank() != 0) {
      try {
        open_block(name, O_RDWR);
      } catch (const Error& error) {
        failure = error.what();
      }
    }
    ranks.barrier();
    if (ranks.rank() == 0) shm_unlink(name);
    if (!failure.empty()) throw Error(ErrorCode::kUsage, failure);
    PLIMSOLL_CUDA(cudaHostRegister(block_, bytes(), cudaHostRegisterMapped | cudaHostRegisterPortable));
    void* device = nullptr;
    PLIMSOLL_CUDA(cudaHostGetDevicePointer(&device, block_, 0));
    device_ = reinterpret_cast<CUdeviceptr>(device);
  }
  ~SharedMarks() {
    if (device_ != 0) static_cast<void>(cudaHostUnregister(block_));
    if (block_ != nullptr) munmap(block_, bytes());
  }
  SharedMarks(const SharedMarks&) = delete;
  SharedMarks& operator=(const SharedMarks&) = delete;

  // Returns the device address of the flag with which rank `from` signals to rank `to`.
  CUdeviceptr on_device(Mark mark, int to, int from) const { return device_ + offset(mark, to, from); }
  volatile uint32_t& on_host(Mark mark, int to, int from) const {
    return *reinterpret_cast<volatile uint32_t*>(static_cast<std::byte*>(block_) + offset(mark, to, from));
  }

 private:
  static constexpr size_t kLine = 64;

  size_t bytes() const {
    return kNumMarks * static_cast<size_t>(num_ranks_) * static_cast<size_t>(num_ranks_) * kLine;
  }
  size_t offset(Mark mark, int to, int from) const {
    const auto n = static_cast<size_t>(num_ranks_);
    return ((static_cast<size_t>(mark) * n + static_cast<size_t>(to)) * n + static_cast<size_t>(from)) *
           kLine;
  }
  void open_block(const char* name, int flags) {
    const int descriptor = shm_open(name, flags, 0600);
    const auto fail = [&](const char* call) {
      const int error = errno;
      if (descriptor >= 0) close(descriptor);
      throw_error(ErrorCode::kUsage,
                  "the ranks cannot share memory ({} of '{}' failed: {}); if they are on different machines "
                  "or in different "
                  "containers, use --ddp_backend nccl",
                  call, name, std::strerror(error));
    };
    if (descriptor < 0) fail("shm_open");
    if ((flags & O_CREAT) != 0 && ftruncate(descriptor, static_cast<off_t>(bytes())) != 0) fail("ftruncate");
    void* block = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (block == MAP_FAILED) fail("mmap");
    close(descriptor);
    block_ = block;
  }

  int num_ranks_;
  void* block_ = nullptr;
  CUdeviceptr device_ = 0;
};

// Collects operations that set marks or wait for marks, and enqueues them on a stream with a single call of the driver.
class StreamMarks {
 public:
  void write(CUdeviceptr address, uint32_t value) {
    CUstreamBatchMemOpParams& op = next();
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = address;
    op.writeValue.value = value;
    op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  }
  void wait(CUdeviceptr address, uint32_t value) {
    CUstreamBatchMemOpParams& op = next();
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = address;
    op.waitValue.value = value;
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  }
  void enqueue(BatchMemOp batch_mem_op, CudaStream stream) {
    const CUresult result = batch_mem_op(stream, count_, ops_, 0);
    if (result != CUDA_SUCCESS)
      throw_error(ErrorCode::kDevice,
                  "the CUDA driver does not allow a stream to wait for other ranks (cuStreamBatchMemOp "
                  "returned {}); use "
                  "--ddp_backend nccl",
                  static_cast<int>(result));
  }

 private:
  CUstreamBatchMemOpParams& next() {
    CUstreamBatchMemOpParams& op = ops_[count_++];
    op = {};
    return op;
  }

  CUstreamBatchMemOpParams ops_[3 * kMostPeers];
  unsigned int count_ = 0;
};

class MappedPeers final : public PeerMemory {
 public:
  MappedPeers(Communicator& ranks, int gpu_ordinal, const std::string& uuid) : ranks_(ranks) {
    if (ranks.size() > kMostPeers)
      throw_error(ErrorCode::kUsage,
                  "at most {} GPUs can map each other's memory, but the run has {}; use --ddp_backend nccl",
                  kMostPeers, ranks.size());
    require_different_gpus(ranks, uuid);
    PLIMSOLL_CUDA(cudaSetDevice(gpu_ordinal));
    batch_mem_op_ = batch_mem_op();
    marks_ = std::make_unique<SharedMarks>(ranks);
    distances_.resize(static_cast<size_t>(ranks.size()));
    mapped_.resize(static_cast<size_t>(ranks.size()));
    ranks.on_failure([this](const std::string& text) { fail(text); });
  }
  ~MappedPeers() override {
    ranks_.on_failure({});
    has_ended_ = true;
    if (releaser_.joinable()) releaser_.join();
    unmap();
  }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }

  void map(std::byte* data, int64_t bytes, BlockSizes sizes) override {
    struct Block {
      cudaIpcMemHandle_t handle;
      int64_t bytes;
    };
    Block own{.handle = {}, .bytes = bytes};
    PLIMSOLL_CUDA(cudaIpcGetMemHandle(&own.handle, data));
    std::vector<Block> all(static_cast<size_t>(size()));
    ranks_.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    for (size_t peer = 0; peer < all.size(); ++peer) {
      if (static_cast<int>(peer) == rank()) continue;
      PLIMSOLL_CHECK(sizes == BlockSizes::kDifferent || all[peer].bytes == bytes,
                     "all ranks must share memory blocks of the same size, but rank {} has one of {} bytes "
                     "and rank {} one of {}",
                     peer, all[peer].bytes, rank(), bytes);
      const cudaError_t error =
          cudaIpcOpenMemHandle(&mapped_[peer], all[peer].handle, cudaIpcMemLazyEnablePeerAccess);
      if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        throw_error(
            ErrorCode::kDevice,
            "the GPU of rank {} cannot map the memory of the GPU of rank {} ({}); use --ddp_backend nccl",
            rank(), peer, cudaGetErrorString(error));
      }
      distances_[peer] = static_cast<std::byte*>(mapped_[peer]) - data;
    }
  }
  void unmap() override {
    for (void*& block : mapped_) {
      if (block != nullptr) static_cast<void>(cudaIpcCloseMemHandle(block));
      block = nullptr;
    }
  }
  std::ptrdiff_t distance_to(int rank) const override { return distances_[static_cast<size_t>(rank)]; }

  void meet(Point point, CudaStream stream) override {
    failure_.require_none();
    const Mark mark = SharedMarks::mark_of(point);
    StreamMarks marks;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) marks.write(marks_->on_device(mark, peer, rank()), 1);
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const CUdeviceptr own = marks_->on_device(mark, rank(), peer);
      marks.wait(own, 1);
      marks.write(own, 0);
    }
    marks.enqueue(batch_mem_op_, stream);
  }

  void wait_until_taken(int to, CudaStream stream) override {
    failure_.require_none();
    StreamMarks marks;
    marks.wait(marks_->on_device(Mark::kUntaken, to, rank()), 0);
    marks.enqueue(batch_mem_op_, stream);
  }
  void announce_message(int to, CudaStream stream) override {
    StreamMarks marks;
    marks.write(marks_->on_device(Mark::kUntaken, to, rank()), 1);
    marks.write(marks_->on_device(Mark::kMessage, to, rank()), 1);
    marks.enqueue(batch_mem_op_, stream);
  }
  void wait_for_message(int from, CudaStream stream) override {
    failure_.require_none();
    const CUdeviceptr message = marks_->on_device(Mark::kMessage, rank(), from);
    StreamMarks marks;
    marks.wait(message, 1);
    marks.write(message, 0);
    marks.enqueue(batch_mem_op_, stream);
  }
  void take_message(int from, CudaStream stream) override {
    StreamMarks marks;
    marks.write(marks_->on_device(Mark::kUntaken, rank(), from), 0);
    marks.enqueue(batch_mem_op_, stream);
  }

  void require_all_ranks() override { failure_.require_none(); }

 private:
  using Mark = SharedMarks::Mark;

  // Repeatedly sets the marks of all ranks, so that work that is already enqueued on this GPU does not wait for the failed rank
  // forever.
  void fail(const std::string& text) {
    if (!failure_.report(text)) return;
    releaser_ = std::thread([this] {
      while (!has_ended_) {
        for (int peer = 0; peer < size(); ++peer) {
          for (const Mark mark : {Mark::kBegin, Mark::kMiddle, Mark::kEnd, Mark::kMessage})
            marks_->on_host(mark, rank(), peer) = 1;
          marks_->on_host(Mark::kUntaken, peer, rank()) = 0;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }

  Communicator& ranks_;
  BatchMemOp batch_mem_op_ = nullptr;
  std::unique_ptr<SharedMarks> marks_;
  std::vector<std::ptrdiff_t> distances_;
  std::vector<void*> mapped_;
  RankFailure failure_;
  std::atomic<bool> has_ended_ = false;
  std::thread releaser_;
};

}  // namespace

std::unique_ptr<PeerMemory> connect_peers(Communicator& ranks, int gpu_ordinal, const std::string& uuid) {
  return std::make_unique<MappedPeers>(ranks, gpu_ordinal, uuid);
}

}  // namespace plimsoll
