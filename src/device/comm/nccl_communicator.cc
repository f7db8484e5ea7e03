#include <cuda_runtime_api.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "device/comm/different_gpus.h"
#include "device/comm/gpu_communicator.h"
#include "device/comm/nccl_library.h"
#include "device/comm/rank_failure.h"
#include "device/cuda/cuda_error.h"

namespace plimsoll {
namespace {

// The largest number of thread blocks that NCCL may use. Each occupies a multiprocessor, which the computation then lacks, and
// needs 18 MiB of buffers. On two H200, training is equally fast with 4 to 24 thread blocks (bench/results/h200-2026-11-27.md).
constexpr int kMostNcclBlocks = 8;

NcclType nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return NcclType::kF32;
    case DType::kF64:
      return NcclType::kF64;
    case DType::kBF16:
      return NcclType::kBF16;
    case DType::kF16:
      return NcclType::kF16;
    case DType::kI32:
      return NcclType::kI32;
    default:
      break;
  }
  throw_error(ErrorCode::kInternal, "NCCL cannot add elements of type {}", dtype_name(dtype));
}

class NcclCommunicator final : public GpuCommunicator {
 public:
  NcclCommunicator(Communicator& ranks, int gpu_ordinal, const std::string& uuid) : ranks_(ranks) {
    require_different_gpus(ranks, uuid);
    PLIMSOLL_CUDA(cudaSetDevice(gpu_ordinal));
    const NcclLibrary& library = nccl();
    NcclId id;
    if (ranks.rank() == 0) check(library.get_unique_id(&id), "ncclGetUniqueId");
    ranks.broadcast(std::as_writable_bytes(std::span(id.bytes)), 0);
    NcclConfig config{.max_ctas = kMostNcclBlocks};
    check(library.comm_init(&comm_, ranks.size(), id, ranks.rank(), &config), "ncclCommInitRankConfig");
    ranks.on_failure([this](const std::string& text) { fail(text); });
  }

  // Aborts the NCCL communicator after an error instead of closing it, because closing would wait for the other ranks.
  ~NcclCommunicator() override {
    ranks_.on_failure({});
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() > 0) {
      nccl().comm_stop(comm_);
    } else {
      nccl().comm_destroy(comm_);
    }
  }

  void all_reduce(std::span<const ReducedTensor> tensors, CudaStream stream) override {
    const std::lock_guard lock(uses_comm_);
    require_all_ranks();
    const NcclLibrary& library = nccl();
    check(library.group_start(), "ncclGroupStart");
    for (const ReducedTensor& tensor : tensors) {
      if (tensor.count == 0) continue;
      check(library.all_reduce(tensor.data.data, tensor.data.data, static_cast<size_t>(tensor.count),
                               nccl_type(tensor.data.dtype), kNcclSum, comm_, stream),
            "ncclAllReduce");
    }
    check(library.group_end(), "ncclGroupEnd");
  }

  // NCCL's own reduce_scatter and all_gather need slices of equal size. Other slices are exchanged one by one: reduce_scatter sums a slice
  // on the rank that owns it, and all_gather broadcasts it from there. In both cases a rank sends every slice but one.
  void reduce_scatter(std::span<const DividedTensor> tensors, CudaStream stream) override {
    const std::lock_guard lock(uses_comm_);
    require_all_ranks();
    const NcclLibrary& library = nccl();
    check(library.group_start(), "ncclGroupStart");
    for (const DividedTensor& tensor : tensors) {
      const NcclType type = nccl_type(tensor.data.dtype);
      if (has_equal_slices(tensor)) {
        check(library.reduce_scatter(tensor.data.data, slice_of(tensor, ranks_.rank()),
                                     static_cast<size_t>(tensor.slice), type, kNcclSum, comm_, stream),
              "ncclReduceScatter");
        continue;
      }
      for_each_slice(tensor, [&](int rank, size_t count) {
        void* slice = slice_of(tensor, rank);
        check(library.reduce(slice, slice, count, type, kNcclSum, rank, comm_, stream), "ncclReduce");
      });
    }
    check(library.group_end(), "ncclGroupEnd");
  }

  void all_gather(std::span<const DividedTensor> tensors, CudaStream stream) override {
    const std::lock_guard lock(uses_comm_);
    require_all_ranks();
    const NcclLibrary& library = nccl();
    check(library.group_start(), "ncclGroupStart");
    for (const DividedTensor& tensor : tensors) {
      const auto width = static_cast<size_t>(dtype_bytes(tensor.data.dtype));
      const void* own = tensor.own ? tensor.own.data : slice_of(tensor, ranks_.rank());
      if (has_equal_slices(tensor)) {
        check(library.all_gather(own, tensor.data.data, static_cast<size_t>(tensor.slice) * width,
                                 NcclType::kU8, comm_, stream),
              "ncclAllGather");
        continue;
      }
      for_each_slice(tensor, [&](int rank, size_t count) {
        void* slice = slice_of(tensor, rank);
        check(library.broadcast(rank == ranks_.rank() ? own : slice, slice, count * width, NcclType::kU8,
                                rank, comm_, stream),
              "ncclBroadcast");
      });
    }
    check(library.group_end(), "ncclGroupEnd");
  }

  void all_to_all(ConstView mine, View received, int64_t block_bytes, CudaStream stream) override {
    if (block_bytes == 0) return;
    const std::lock_guard lock(uses_comm_);
    require_all_ranks();
    const NcclLibrary& library = nccl();
    const auto bytes = static_cast<size_t>(block_bytes);
    const auto* sent = static_cast<const std::byte*>(mine.data);
    auto* room = static_cast<std::byte*>(received.data);
    check(library.group_start(), "ncclGroupStart");
    for (int peer = 0; peer < ranks_.size(); ++peer) {
      const int64_t offset = peer * block_bytes;
      check(library.send(sent + offset, bytes, NcclType::kU8, peer, comm_, stream), "ncclSend");
      check(library.receive(room + offset, bytes, NcclType::kU8, peer, comm_, stream), "ncclRecv");
    }
    check(library.group_end(), "ncclGroupEnd");
  }

  void broadcast(const ReducedTensor& tensor, int root, CudaStream stream) override {
    const std::lock_guard lock(uses_comm_);
    require_all_ranks();
    check(nccl().broadcast(tensor.data.data, tensor.data.data, static_cast<size_t>(tensor.count),
                           nccl_type(tensor.data.dtype), root, comm_, stream),
          "ncclBroadcast");
  }

  void require_all_ranks() override { failure_.require_none(); }

 private:
  bool has_equal_slices(const DividedTensor& tensor) const {
    return tensor.count > 0 && tensor.count == tensor.slice * ranks_.size();
  }
  static void* slice_of(const DividedTensor& tensor, int rank) {
    return static_cast<std::byte*>(tensor.data.data) + tensor.first_of(rank) * dtype_bytes(tensor.data.dtype);
  }
  // Calls work(rank, elements) for every rank whose slice is not empty.
  template <typename Work>
  void for_each_slice(const DividedTensor& tensor, const Work& work) const {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      if (const int64_t count = tensor.count_of(rank); count > 0) work(rank, static_cast<size_t>(count));
    }
  }

  void check(int result, const char* call) {
    if (result == 0) return;
    require_all_ranks();
    const char* detail = nccl().last_error(comm_);
    throw_error(
        ErrorCode::kDevice,
        "NCCL reports '{}' at {} on rank {} of {}{}{}; NCCL_DEBUG=INFO prints more, and --nproc_per_node 1 "
        "trains on one GPU",
        nccl().error_string(result), call, ranks_.rank(), ranks_.size(),
        detail != nullptr && *detail != '\0' ? ": " : "", detail == nullptr ? "" : detail);
  }

  // Aborts pending operations after a rank has failed, because they would wait for it forever. Called in a thread of the
  // communicator that connects the processes. A call of NCCL that waits for the failed rank holds the mutex uses_comm_ and
  // returns only after the abort.
  void fail(const std::string& text) {
    if (!failure_.report(text)) return;
    constexpr std::chrono::milliseconds kLimit{500};
    const std::unique_lock lock(uses_comm_, kLimit);
    nccl().comm_stop(std::exchange(comm_, nullptr));
  }

  Communicator& ranks_;
  NcclHandle comm_ = nullptr;
  std::timed_mutex uses_comm_;  // locked while a call of NCCL uses comm_
  RankFailure failure_;
};

}  // namespace

std::unique_ptr<GpuCommunicator> connect_gpus(Communicator& ranks, int gpu_ordinal, const std::string& uuid) {
  return std::make_unique<NcclCommunicator>(ranks, gpu_ordinal, uuid);
}

}  // namespace plimsoll
