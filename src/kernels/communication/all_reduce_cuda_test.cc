// Tests all_reduce between all visible GPUs, at least two: through NCCL with a thread per GPU, and through mapped memory with a process per
// GPU.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "device/cuda/cuda_device.h"
#include "kernels/communication/all_reduce.h"
#include "kernels/communication/testing/gpu_ranks.h"
#include "kernels/communication/testing/unit_roundoff.h"

namespace plimsoll::test {
namespace {

const std::vector<int64_t> kSizes{3, 0, 1000, 1, 40'000, 17, 5'000'000};

// The tensors of a rank, stored one after the other at multiples of 256 bytes.
struct Tensors {
  DType dtype = DType::kF32;
  std::vector<std::byte> bytes;
  std::vector<size_t> offsets;

  Tensors(DType type, int rank) : dtype(type) {
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    std::normal_distribution<double> normal;
    for (const int64_t size : kSizes) {
      offsets.push_back(bytes.size());
      bytes.resize((bytes.size() + static_cast<size_t>(size * dtype_bytes(dtype)) + 255) / 256 * 256);
      for (int64_t i = 0; i < size; ++i) View{bytes.data() + offsets.back(), dtype}.store(i, normal(random));
    }
  }
  double load(size_t tensor, int64_t i) const {
    return ConstView{bytes.data() + offsets[tensor], dtype}.load(i);
  }
};

using Kernel = void (*)(const AllReduceArgs&, CudaStream);

// The offset of the scratch memory in a rank's memory block; the tensors are stored before it.
constexpr size_t kScratch = size_t{64} << 20;
constexpr size_t kBlock = size_t{128} << 20;

// Sums the tensors of one rank four times, each time from the same data: twice by launches, and twice by a captured CUDA graph. Returns the
// bytes of the tensors after each sum.
std::vector<std::vector<std::byte>> reduced(const Kernel& kernel, AllReduceArgs args, int rank, DType dtype,
                                            std::byte* device, CudaStream stream) {
  const Tensors host(dtype, rank);
  std::vector<ReducedTensor> tensors;
  for (size_t i = 0; i < kSizes.size(); ++i)
    tensors.push_back({.data = {device + host.offsets[i], dtype}, .count = kSizes[i]});
  args.tensors = tensors;
  args.scratch = {device + kScratch, DType::kU8};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  std::vector<std::vector<std::byte>> results;
  // The host memory must be pinned. A copy of pageable memory holds locks of the CUDA driver while it waits for the stream. The stream
  // waits for the other ranks, whose threads need the same locks, so the test would never end.
  const PinnedMemory pinned(static_cast<int64_t>(host.bytes.size()));
  for (int run = 0; run < 4; ++run) {
    std::ranges::copy(host.bytes, pinned.data());
    PLIMSOLL_CUDA(cudaMemcpyAsync(device, pinned.data(), host.bytes.size(), cudaMemcpyHostToDevice, stream));
    if (run < 2) {
      kernel(args, stream);
    } else if (run == 2) {
      PLIMSOLL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      kernel(args, stream);
      PLIMSOLL_CUDA(cudaStreamEndCapture(stream, &graph));
      PLIMSOLL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    }
    if (run >= 2) PLIMSOLL_CUDA(cudaGraphLaunch(executable, stream));
    PLIMSOLL_CUDA(cudaMemcpyAsync(pinned.data(), device, host.bytes.size(), cudaMemcpyDeviceToHost, stream));
    PLIMSOLL_CUDA(cudaStreamSynchronize(stream));
    results.emplace_back(pinned.data(), pinned.data() + host.bytes.size());
  }
  PLIMSOLL_CUDA(cudaGraphExecDestroy(executable));
  PLIMSOLL_CUDA(cudaGraphDestroy(graph));
  return results;
}

const std::vector<DType> kTypes{DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// The bytes of a rank's tensors after the sum, indexed by data type (as in kTypes) and then by repetition.
using Results = std::vector<std::vector<std::vector<std::byte>>>;

void expect_sums(const std::vector<Results>& of_ranks) {
  const int num_ranks = static_cast<int>(of_ranks.size());
  for (size_t k = 0; k < kTypes.size(); ++k) {
    const DType dtype = kTypes[k];
    const std::vector<std::byte>& found_bytes = of_ranks[0][k][0];
    for (const Results& results : of_ranks) {
      for (const std::vector<std::byte>& run : results[k])
        EXPECT_TRUE(run == found_bytes) << dtype_name(dtype);
    }
    std::vector<Tensors> all;
    all.reserve(static_cast<size_t>(num_ranks));
    for (int rank = 0; rank < num_ranks; ++rank) all.emplace_back(dtype, rank);
    const double u = unit_roundoff(dtype);
    for (size_t t = 0; t < kSizes.size(); ++t) {
      for (int64_t i = 0; i < kSizes[t]; ++i) {
        double sum = 0, magnitude = 0;
        for (const Tensors& of_rank : all) {
          sum += of_rank.load(t, i);
          magnitude += std::abs(of_rank.load(t, i));
        }
        // The error bound of all_reduce.h. The last two terms are for the rounding errors of the expected `sum`, and for results so small
        // that they are subnormal.
        const double bound = (num_ranks - 1) * u * magnitude * 1.01 + u * std::abs(sum) * 1.01 +
                             num_ranks * std::ldexp(magnitude, -53) + std::ldexp(1.0, -24) * u;
        const double found = ConstView{found_bytes.data() + all[0].offsets[t], dtype}.load(i);
        ASSERT_NEAR(found, sum, bound)
            << "element " << i << " of tensor " << t << " in " << dtype_name(dtype);
      }
    }
  }
}

TEST(AllReduceCuda, NcclSumsTheTensorsOfAllGpus) {
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices();
  if (devices.size() < 2) GTEST_SKIP() << "NCCL connects at least two GPUs, and one is visible";
  std::vector<Results> results(devices.size());
  testing::run_on_ranks(static_cast<int>(devices.size()), [&](Communicator& ranks) {
    CudaDevice device(ranks.rank());
    const GpuBlock block(kBlock);
    const std::unique_ptr<GpuCommunicator> gpus = connect_gpus(ranks, ranks.rank(), device.info().uuid);
    for (const DType dtype : kTypes) {
      results[static_cast<size_t>(ranks.rank())].push_back(reduced(
          all_reduce_cuda_nccl, {.gpus = gpus.get()}, ranks.rank(), dtype, block.data(), device.stream()));
    }
    gpus->require_all_ranks();
  });
  expect_sums(results);
}

// Runs only in the processes, one per GPU, that AllReduceCuda.MappedPeersSumTheTensorsOfAllGpus starts. The first process checks the sums
// of all processes.
TEST(AllReduceCudaRank, SumsWithTheOthers) {
  const RankPlace place = place_of_this_process();
  if (place.is_alone())
    GTEST_SKIP() << "AllReduceCuda.MappedPeersSumTheTensorsOfAllGpus starts processes that run it";
  const std::unique_ptr<Communicator> ranks = connect_ranks(place);
  CudaDevice device(place.rank);
  const GpuBlock block(kBlock);
  const std::unique_ptr<PeerMemory> peers = connect_peers(*ranks, place.rank, device.info().uuid);
  peers->map(block.data(), static_cast<int64_t>(kBlock), PeerMemory::BlockSizes::kEqual);
  std::vector<Results> of_ranks(static_cast<size_t>(place.size), Results(kTypes.size()));
  for (size_t k = 0; k < kTypes.size(); ++k) {
    for (const std::vector<std::byte>& own : reduced(all_reduce_cuda_peers, {.peers = peers.get()},
                                                     place.rank, kTypes[k], block.data(), device.stream())) {
      std::vector<std::byte> all(own.size() * of_ranks.size());
      ranks->all_gather(own, all);
      for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * own.size());
        of_ranks[rank][k].emplace_back(begin, begin + std::ssize(own));
      }
    }
  }
  peers->require_all_ranks();
  ranks->barrier();
  peers->unmap();
  ranks->barrier();
  if (place.is_first()) expect_sums(of_ranks);
}

TEST(AllReduceCuda, MappedPeersSumTheTensorsOfAllGpus) {
  const size_t num_ranks = visible_cuda_devices().size();
  if (num_ranks < 2) GTEST_SKIP() << "at least two GPUs map each other's memory, and one is visible";
  run_on_gpus_of_processes(num_ranks, "AllReduceCudaRank.*");
}

// Two ranks must not use the same GPU. The ranks compare the UUIDs of their GPUs before they call CUDA, so this test needs no GPU.
TEST(AllReduceCuda, TwoRanksOnOneGpuAreRefused) {
  testing::run_on_ranks(2, [&](Communicator& ranks) {
    try {
      connect_gpus(ranks, 0, "GPU-1234");
      ADD_FAILURE() << "connected";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find("ranks 0 and 1 have the same GPU (GPU-1234)"),
                std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace plimsoll::test
