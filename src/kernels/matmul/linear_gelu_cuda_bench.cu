// Times of linear_gelu on the GPU at hand, at the shapes of the project's targets: by the kernel of ours, by
// the way that prepare_linear_gelu_cuda() takes, by cuBLASLt's product and bias_gelu, and that product alone.
// Milliseconds, the mean of calls in a row for kSeconds: a card that products keep at its limit of power
// slows down within that time, and single calls would not show it. A plain program.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "device/cuda/error.h"
#include "kernels/element_wise/gelu_cuda.h"
#include "kernels/matmul/linear_gelu_cuda.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {
namespace {

constexpr double kSeconds = 0.4;

// Sums of four hashes of the index, about normal with a standard deviation of `scale`, as bf16, cut off.
__global__ void fill(uint16_t* data, int64_t count, float scale) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    uint64_t hash = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15ull;
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      hash ^= hash >> 31;
      hash *= 0xbf58476d1ce4e5b9ull;
      hash ^= hash >> 27;
      sum += static_cast<float>(hash >> 40) * 0x1p-24f - 0.5f;
    }
    data[i] = static_cast<uint16_t>(__float_as_uint(sum * 1.732f * scale) >> 16);
  }
}

View make(int64_t count, float scale) {
  void* data = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(&data, static_cast<size_t>(count) * 2));
  fill<<<1024, 256>>>(static_cast<uint16_t*>(data), count, scale);
  PLIMSOLL_CHECK_LAUNCH("fill");
  return {data, DType::kBF16};
}

template <typename Call>
double mean_ms(const Call& call) {
  cudaEvent_t start, stop;
  PLIMSOLL_CUDA(cudaEventCreate(&start));
  PLIMSOLL_CUDA(cudaEventCreate(&stop));
  float ms = 0;
  for (int calls = 10;; calls = static_cast<int>(kSeconds * 1e3 * calls / static_cast<double>(ms)) + 1) {
    const bool is_last = ms > 0;
    PLIMSOLL_CUDA(cudaEventRecord(start));
    for (int i = 0; i < calls; ++i) call();
    PLIMSOLL_CUDA(cudaEventRecord(stop));
    PLIMSOLL_CUDA(cudaEventSynchronize(stop));
    PLIMSOLL_CUDA(cudaEventElapsedTime(&ms, start, stop));
    if (is_last) return static_cast<double>(ms) / calls;
  }
}

void run(const LinearGeluProblem& problem) {
  const View x = make(problem.rows * problem.terms, 1.0f), w = make(problem.columns * problem.terms, 0.035f);
  const View bias = make(problem.columns, 0.5f), y = make(problem.rows * problem.columns, 1.0f);
  const View workspace = make(kCublasLtWorkspaceBytes / 2, 0.0f);
  const LinearGeluArgs args{
      .x_TK = x,
      .w_NK = w,
      .bias_N = bias,
      .y_TN = y,
      .scratch = {static_cast<std::byte*>(workspace.data), static_cast<size_t>(kCublasLtWorkspaceBytes)}};
  const auto own = prepare_own_linear_gelu_cuda(problem), chosen = prepare_linear_gelu_cuda(problem);
  const auto product = prepare_matmul_cuda({.m = problem.rows,
                                            .n = problem.columns,
                                            .k = problem.terms,
                                            .trans_b = Transpose::kYes,
                                            .a = problem.dtype,
                                            .b = problem.dtype,
                                            .c = problem.dtype},
                                           Fp32Products::kF32);
  const auto multiply = [&] {
    product->run({.a = x, .b = w, .bias = {}, .c = y, .scratch = args.scratch}, nullptr, nullptr);
  };
  const double own_ms = mean_ms([&] { own->run(args, nullptr); });
  const double chosen_ms = mean_ms([&] { chosen->run(args, nullptr); });
  const double product_ms = mean_ms(multiply);
  const double apart_ms = mean_ms([&] {
    multiply();
    bias_gelu_fwd_cuda({.h = y, .b = bias, .y = y, .T = problem.rows, .C = problem.columns}, nullptr);
  });
  const double flops = 2e-9 * static_cast<double>(problem.rows * problem.columns * problem.terms);
  std::printf(
      "%6lld x %5lld x %5lld: own %8.4f ms %6.1f TFLOP/s, chosen %8.4f (%s), product and bias_gelu %8.4f, "
      "product alone %8.4f ms %6.1f TFLOP/s\n",
      static_cast<long long>(problem.rows), static_cast<long long>(problem.columns),
      static_cast<long long>(problem.terms), own_ms, flops / own_ms, chosen_ms, chosen->description().c_str(),
      apart_ms, product_ms, flops / product_ms);
  for (const View& view : {x, w, bias, y, workspace}) PLIMSOLL_CUDA(cudaFree(view.data));
}

}  // namespace
}  // namespace plimsoll

int main() {
  for (const int64_t rows : {int64_t{32768}, int64_t{8192}, int64_t{2304}, int64_t{2048}, int64_t{1024}}) {
    plimsoll::run({.rows = rows, .columns = 4096, .terms = 1024, .sm = 90});
    plimsoll::run({.rows = rows, .columns = 3072, .terms = 768, .sm = 90});
  }
  return 0;
}
