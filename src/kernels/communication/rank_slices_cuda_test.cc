// Tests reduce_scatter and all_gather between all visible GPUs, at least two: through NCCL with a thread per GPU, and through mapped memory
// with a process per GPU. Sums are compared with sums in double precision, within the error bound of the contract, and gathered slices byte
// for byte.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "device/cuda/cuda_device.h"
#include "kernels/communication/communication_catalog.h"
#include "kernels/communication/reduce_scatter.h"
#include "kernels/communication/testing/gpu_ranks.h"
#include "kernels/communication/testing/unit_roundoff.h"

namespace plimsoll::test {
namespace {

// The number of elements of a tensor. The number of elements of its slices, one per rank, is a multiple of `block`, except for the last
// slice that is not empty. Some slices are therefore empty or smaller than others. The last tensors are larger than kSmallTensorBytes in
// every type.
struct DividedSize {
  int64_t count;
  int64_t block;
};
const std::vector<DividedSize> kSummedSizes{{300, 256}, {0, 256},       {1000, 256},     {256, 256},
                                            {6000, 64}, {200'000, 256}, {5'000'011, 256}};
// The sizes for tests that only gather slices. Here the size of a slice may be any number of elements, such as 1.
const std::vector<DividedSize> kGatheredSizes{{2, 1},     {5, 1},         {300, 256},      {0, 256},
                                              {6000, 64}, {200'000, 256}, {5'000'011, 256}};

int64_t slice_of(const DividedSize& size, int num_ranks) {
  const int64_t least = (size.count + num_ranks - 1) / num_ranks;
  return std::min(size.count, (least + size.block - 1) / size.block * size.block);
}

// The tensors of a rank, stored one after the other at multiples of 256 bytes, and after them the slices of the rank that are stored
// outside the tensors.
struct DividedTensors {
  std::vector<std::byte> bytes;
  std::vector<DividedTensor> list;  // describes the tensors; their elements are in `bytes`
  DType dtype;

  DividedTensors(DType type, const std::vector<DividedSize>& sizes, int rank, int num_ranks, bool has_own)
      : dtype(type) {
    const auto width = static_cast<size_t>(dtype_bytes(dtype));
    std::vector<size_t> offsets;
    const auto reserve = [&](int64_t elements) {
      offsets.push_back(bytes.size());
      bytes.resize((bytes.size() + static_cast<size_t>(elements) * width + 255) / 256 * 256);
    };
    for (const DividedSize& size : sizes) reserve(size.count);
    for (const DividedSize& size : sizes) reserve(has_own ? slice_of(size, num_ranks) : 0);
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    std::normal_distribution<double> normal;
    const View all{bytes.data(), dtype};
    for (size_t i = 0; i < bytes.size() / width; ++i) all.store(static_cast<int64_t>(i), normal(random));
    for (size_t i = 0; i < sizes.size(); ++i) {
      list.push_back({.data = {bytes.data() + offsets[i], dtype},
                      .count = sizes[i].count,
                      .slice = slice_of(sizes[i], num_ranks)});
      if (has_own) list.back().own = {bytes.data() + offsets[sizes.size() + i], dtype};
    }
  }
};

using SliceKernel = void (*)(const RankSlicesArgs&, CudaStream);

// The offset of the scratch memory in a rank's memory block; the tensors are stored before it.
constexpr size_t kSliceScratch = size_t{96} << 20;
constexpr size_t kSliceBlock = size_t{192} << 20;

// Runs the kernel three times from the same data: twice by launches, and once by a captured CUDA graph. Returns the bytes of the tensors
// after each run.
std::vector<std::vector<std::byte>> results_on_gpu(const SliceKernel& kernel, RankSlicesArgs args,
                                                   const DividedTensors& host, std::byte* device,
                                                   CudaStream stream) {
  const auto on_device = [&](const void* address) {
    return device + (static_cast<const std::byte*>(address) - host.bytes.data());
  };
  std::vector<DividedTensor> tensors = host.list;
  for (DividedTensor& tensor : tensors) {
    tensor.data.data = on_device(tensor.data.data);
    if (tensor.own) tensor.own.data = on_device(tensor.own.data);
  }
  args.tensors = tensors;
  args.scratch = {device + kSliceScratch, DType::kU8};
  std::vector<std::vector<std::byte>> results;
  // The copies use pinned memory. A copy of pageable memory would hold locks of the driver while it waits for the stream. The stream waits
  // for the other threads, which need the same locks, so the test would never end.
  const PinnedMemory pinned(std::ssize(host.bytes));
  for (int run = 0; run < 3; ++run) {
    std::ranges::copy(host.bytes, pinned.data());
    PLIMSOLL_CUDA(cudaMemcpyAsync(device, pinned.data(), host.bytes.size(), cudaMemcpyHostToDevice, stream));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (run < 2) {
      kernel(args, stream);
    } else {
      PLIMSOLL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      kernel(args, stream);
      PLIMSOLL_CUDA(cudaStreamEndCapture(stream, &graph));
      PLIMSOLL_CUDA(cudaGraphInstantiate(&executable, graph, 0));
      PLIMSOLL_CUDA(cudaGraphLaunch(executable, stream));
    }
    PLIMSOLL_CUDA(cudaMemcpyAsync(pinned.data(), device, host.bytes.size(), cudaMemcpyDeviceToHost, stream));
    PLIMSOLL_CUDA(cudaStreamSynchronize(stream));
    if (executable != nullptr) PLIMSOLL_CUDA(cudaGraphExecDestroy(executable));
    if (graph != nullptr) PLIMSOLL_CUDA(cudaGraphDestroy(graph));
    results.emplace_back(pinned.data(), pinned.data() + host.bytes.size());
  }
  return results;
}

ConstView in(const std::vector<std::byte>& result, const DividedTensors& host, const DividedTensor& tensor) {
  return {result.data() + (static_cast<const std::byte*>(tensor.data.data) - host.bytes.data()), host.dtype};
}

// Every slice of every result must be the sum over the ranks, within the error bound of reduce_scatter.h. NCCL rounds each addition to the
// type of the elements; the kernels with mapped memory add in fp32.
void expect_sums_of_slices(const std::vector<std::vector<std::byte>>& results, DType dtype, int rank,
                           int num_ranks) {
  std::vector<DividedTensors> all;
  all.reserve(static_cast<size_t>(num_ranks));
  for (int i = 0; i < num_ranks; ++i) all.emplace_back(dtype, kSummedSizes, i, num_ranks, false);
  const double u = unit_roundoff(dtype);
  const DividedTensors& host = all[static_cast<size_t>(rank)];
  for (const std::vector<std::byte>& result : results) {
    EXPECT_TRUE(result == results.front()) << dtype_name(dtype);
    for (size_t t = 0; t < host.list.size(); ++t) {
      const DividedTensor& tensor = host.list[t];
      const ConstView found = in(result, host, tensor);
      const int64_t first = tensor.first_of(rank);
      for (int64_t i = first; i < first + tensor.count_of(rank); ++i) {
        double sum = 0, magnitude = 0;
        for (const DividedTensors& of_rank : all) {
          const double term = of_rank.list[t].data.load(i);
          sum += term;
          magnitude += std::abs(term);
        }
        const double bound = (num_ranks - 1) * u * magnitude * 1.01 + u * std::abs(sum) * 1.01 +
                             num_ranks * std::ldexp(magnitude, -53) + std::ldexp(1.0, -24) * u;
        ASSERT_NEAR(found.load(i), sum, bound)
            << "element " << i << " of tensor " << t << " in " << dtype_name(dtype);
      }
    }
  }
}

// Every tensor of every result must contain the slices of all ranks, byte for byte.
void expect_gathered(const std::vector<std::vector<std::byte>>& results, DType dtype, bool has_own, int rank,
                     int num_ranks) {
  std::vector<DividedTensors> all;
  all.reserve(static_cast<size_t>(num_ranks));
  for (int i = 0; i < num_ranks; ++i) all.emplace_back(dtype, kGatheredSizes, i, num_ranks, has_own);
  const DividedTensors& host = all[static_cast<size_t>(rank)];
  for (const std::vector<std::byte>& result : results) {
    for (size_t t = 0; t < host.list.size(); ++t) {
      for (int owner = 0; owner < num_ranks; ++owner) {
        const DividedTensor& source = all[static_cast<size_t>(owner)].list[t];
        const auto width = static_cast<size_t>(dtype_bytes(dtype));
        const auto first = static_cast<size_t>(source.first_of(owner)) * width;
        const auto size = static_cast<size_t>(source.count_of(owner)) * width;
        const auto* wanted = static_cast<const std::byte*>(has_own ? source.own.data : source.data.data) +
                             (has_own ? 0 : first);
        const auto* found = static_cast<const std::byte*>(in(result, host, host.list[t]).data) + first;
        ASSERT_TRUE(std::equal(found, found + size, wanted))
            << "slice " << owner << " of tensor " << t << " in " << dtype_name(dtype)
            << (has_own ? ", from own memory" : "");
      }
    }
  }
}

const std::vector<DType> kSliceTypes{DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Checks reduce_scatter and all_gather on the GPU of one rank.
void check_rank(const SliceKernel& reduce_scatter, const SliceKernel& all_gather, const RankSlicesArgs& args,
                int rank, int num_ranks, std::byte* device, CudaStream stream) {
  for (const DType dtype : kSliceTypes) {
    const DividedTensors summed(dtype, kSummedSizes, rank, num_ranks, false);
    expect_sums_of_slices(results_on_gpu(reduce_scatter, args, summed, device, stream), dtype, rank,
                          num_ranks);
    for (const bool has_own : {false, true}) {
      const DividedTensors gathered(dtype, kGatheredSizes, rank, num_ranks, has_own);
      expect_gathered(results_on_gpu(all_gather, args, gathered, device, stream), dtype, has_own, rank,
                      num_ranks);
    }
  }
}

TEST(RankSlicesCuda, NcclExchangesTheSlicesOfAllGpus) {
  const int num_ranks = static_cast<int>(visible_cuda_devices().size());
  if (num_ranks < 2) GTEST_SKIP() << "NCCL connects at least two GPUs, and one is visible";
  testing::run_on_ranks(num_ranks, [&](Communicator& ranks) {
    CudaDevice device(ranks.rank());
    const GpuBlock block(kSliceBlock);
    const std::unique_ptr<GpuCommunicator> gpus = connect_gpus(ranks, ranks.rank(), device.info().uuid);
    check_rank(reduce_scatter_cuda_nccl, all_gather_cuda_nccl, {.communicator = &ranks, .gpus = gpus.get()},
               ranks.rank(), num_ranks, block.data(), device.stream());
    gpus->require_all_ranks();
  });
}

// Runs only in the processes, one per GPU, that RankSlicesCuda.MappedPeersExchangeTheSlicesOfAllGpus starts.
TEST(RankSlicesCudaRank, ExchangesSlicesWithTheOthers) {
  const RankPlace place = place_of_this_process();
  if (place.is_alone())
    GTEST_SKIP() << "RankSlicesCuda.MappedPeersExchangeTheSlicesOfAllGpus starts processes that run it";
  const std::unique_ptr<Communicator> ranks = connect_ranks(place);
  CudaDevice device(place.rank);
  const GpuBlock block(kSliceBlock);
  const std::unique_ptr<PeerMemory> peers = connect_peers(*ranks, place.rank, device.info().uuid);
  peers->map(block.data(), static_cast<int64_t>(kSliceBlock), PeerMemory::BlockSizes::kEqual);
  check_rank(reduce_scatter_cuda_peers, all_gather_cuda_peers,
             {.communicator = ranks.get(), .peers = peers.get()}, place.rank, place.size, block.data(),
             device.stream());
  peers->require_all_ranks();
  ranks->barrier();
  peers->unmap();
  ranks->barrier();
}

TEST(RankSlicesCuda, MappedPeersExchangeTheSlicesOfAllGpus) {
  const size_t num_ranks = visible_cuda_devices().size();
  if (num_ranks < 2) GTEST_SKIP() << "at least two GPUs map each other's memory, and one is visible";
  run_on_gpus_of_processes(num_ranks, "RankSlicesCudaRank.*");
}

}  // namespace
}  // namespace plimsoll::test
