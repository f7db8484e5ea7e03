#include "exec/cuda/measure_products.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "device/cuda/event.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {
namespace {

// Measures the time of work on a stream by two events.
class Stopwatch {
 public:
  explicit Stopwatch(CudaStream stream) : stream_(stream) {}

  // Returns the seconds of the fastest of `rounds` runs, after one warm-up run.
  template <typename Work>
  double best_seconds(int rounds, const Work& work) {
    float best = 0;
    for (int round = 0; round <= rounds; ++round) {
      begin_.record(stream_);
      work();
      end_.record(stream_);
      end_.wait();
      const float milliseconds = end_.ms_since(begin_);
      if (round > 0) best = round == 1 ? milliseconds : std::min(best, milliseconds);
    }
    return 1e-3 * static_cast<double>(best);
  }

 private:
  CudaStream stream_;
  CudaEvent begin_{CudaEvent::Times::kYes};
  CudaEvent end_{CudaEvent::Times::kYes};
};

// Returns the rate of copies of up to 1 GiB within device memory. Returns 0 if less than 256 MiB are available, because such a
// copy could stay in the caches.
double copy_gb_per_s(Stopwatch& stopwatch, CudaStream stream, std::span<std::byte> memory) {
  constexpr int64_t kMost = int64_t{1} << 30;
  constexpr int64_t kLeast = int64_t{128} << 20;
  const int64_t bytes = std::min(kMost, std::ssize(memory) / 2);
  if (bytes < kLeast) return 0;
  const double seconds = stopwatch.best_seconds(10, [&] {
    PLIMSOLL_CUDA(cudaMemcpyAsync(memory.data() + bytes, memory.data(), static_cast<size_t>(bytes),
                                  cudaMemcpyDeviceToDevice, stream));
  });
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

// Returns the rate of matrix products of n x n matrices. n is at most 8192, for which a product has 1.1e12 operations.
double best_product_gflops(Stopwatch& stopwatch, CudaDevice& device, std::span<std::byte> memory,
                           const PlanRequest& request) {
  const DType dtype = product_type(request);
  if (dtype == DType::kF64) return 0;
  const Fp32Products fp32 = dtype == DType::kF32 ? request.precision.fp32_products : Fp32Products::kF32;
  MatmulProblem problem{.a = dtype, .b = dtype, .c = dtype};
  const auto set_size = [&](int64_t size) { problem.m = problem.n = problem.k = size; };
  const auto scratch_bytes = [&] {
    return kCublasLtWorkspaceBytes + (fp32 == Fp32Products::kTf32x3 ? tf32x3_split_bytes(problem) : 0);
  };
  set_size(ceiling_product_size(std::ssize(memory), kCublasLtWorkspaceBytes, dtype, 8192));
  // With tf32x3 (three TF32 products per fp32 product), each operand is split, which needs scratch memory. Reduce n until all fits.
  while (problem.n > 0 &&
         scratch_bytes() + 3 * problem.n * problem.n * dtype_bytes(dtype) > std::ssize(memory)) {
    set_size(problem.n - 128);
  }
  const int64_t n = problem.n;
  if (n == 0) return 0;
  const int64_t bytes = n * n * dtype_bytes(dtype);
  std::vector<std::byte> noise(static_cast<size_t>(int64_t{128} * n * dtype_bytes(dtype)));
  fill_with_noise(noise, dtype);
  for (int64_t at = 0; at < 2 * bytes; at += std::ssize(noise)) {
    device.copy_to_device(memory.data() + at, noise.data(), std::ssize(noise));
  }
  const std::unique_ptr<CudaMatmul> product = prepare_matmul_cuda(problem, fp32);
  std::byte* at = memory.data();
  const MatmulArgs args{.a = {at, dtype},
                        .b = {at + bytes, dtype},
                        .bias = {},
                        .c = {at + 2 * bytes, dtype},
                        .scratch = {at + 3 * bytes, static_cast<size_t>(scratch_bytes())}};
  const double seconds = stopwatch.best_seconds(5, [&] { product->run(args, nullptr, device.stream()); });
  return 1e-9 * static_cast<double>(matmul_flops(problem)) / seconds;
}

}  // namespace

Ceilings measure_ceilings_cuda(CudaDevice& device, std::span<std::byte> memory, const PlanRequest& request) {
  Stopwatch stopwatch(device.stream());
  return {.product_gflops = best_product_gflops(stopwatch, device, memory, request),
          .copy_gb_per_s = copy_gb_per_s(stopwatch, device.stream(), memory)};
}

}  // namespace plimsoll
