// Times of attention on the GPU at hand, at the shapes of the project's targets: milliseconds (median of
// events around single calls) and the contract's floating-point operations per second, forward and backward.
// Buffers are rotated, so that nothing stays in the cache from one call to the next. A plain program.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "device/cuda/error.h"
#include "kernels/attention/attention_cuda.h"

namespace plimsoll {
namespace {

constexpr int kSets = 3, kWarmUps = 5, kCalls = 31;

struct Shape {
  const char* name;
  std::vector<int> lengths;
  int heads, head_dim;
  DType dtype;
  double dropout;
};

// 32 lengths up to 128 by a fixed rule, 53 on average.
std::vector<int> short_texts() {
  std::vector<int> lengths;
  for (int b = 0; b < 32; ++b) lengths.push_back(b == 0 ? 128 : 10 + (b * 29 + 7) % 83);
  return lengths;
}

// Numbers between -1 and 1 by a hash of the index.
__global__ void fill(void* data, int64_t count, DType dtype) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const uint32_t hash = (static_cast<uint32_t>(i) * 2654435761u) ^ (static_cast<uint32_t>(i) >> 7) * 40503u;
    const float x = static_cast<float>(hash >> 8) * 0x1p-23f - 1.0f;
    if (dtype == DType::kF32) {
      static_cast<float*>(data)[i] = x;
    } else {  // bf16, cut off; the bits of f16 for such values would be others, but no shape here has f16
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(__float_as_uint(x) >> 16);
    }
  }
}

void* make(int64_t count, DType dtype) {
  void* data = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(&data, static_cast<size_t>(count * dtype_bytes(dtype))));
  fill<<<256, 256>>>(data, count, dtype);
  PLIMSOLL_CHECK_LAUNCH("fill");
  return data;
}

template <typename Call>
double median_ms(const Call& call) {
  cudaEvent_t start, stop;
  PLIMSOLL_CUDA(cudaEventCreate(&start));
  PLIMSOLL_CUDA(cudaEventCreate(&stop));
  std::vector<float> times;
  for (int i = 0; i < kWarmUps + kCalls; ++i) {
    float ms = 0;
    PLIMSOLL_CUDA(cudaEventRecord(start));
    call(i % kSets);
    PLIMSOLL_CUDA(cudaEventRecord(stop));
    PLIMSOLL_CUDA(cudaEventSynchronize(stop));
    PLIMSOLL_CUDA(cudaEventElapsedTime(&ms, start, stop));
    if (i >= kWarmUps) times.push_back(ms);
  }
  std::nth_element(times.begin(), times.begin() + kCalls / 2, times.end());
  return static_cast<double>(times[kCalls / 2]);
}

void run(const Shape& shape) {
  AttentionDims dims;
  std::vector<int32_t> cu_seqlens{0};
  double products = 0;
  for (const int length : shape.lengths) {
    cu_seqlens.push_back(cu_seqlens.back() + length);
    dims.longest = std::max<int64_t>(dims.longest, length);
    products += 1.0 * length * length * shape.heads * shape.head_dim;
  }
  dims.tokens = cu_seqlens.back();
  dims.sequences = static_cast<int64_t>(shape.lengths.size());
  dims.heads = shape.heads;
  dims.head_dim = shape.head_dim;
  const int64_t columns = dims.heads * dims.head_dim;
  const int64_t scratch_bytes = attention_bwd_cuda_mma_scratch_bytes(dims);
  std::vector<AttentionFwdArgs> forward(kSets);
  std::vector<AttentionBwdArgs> backward(kSets);
  std::vector<void*> blocks;
  const auto block = [&](int64_t count, DType dtype) {
    blocks.push_back(make(count, dtype));
    return View{blocks.back(), dtype};
  };
  const View lengths = block(dims.sequences + 1, DType::kI32), rng = block(2, DType::kI64);
  const int64_t numbers[2] = {42, 7};
  PLIMSOLL_CUDA(cudaMemcpy(lengths.data, cu_seqlens.data(), cu_seqlens.size() * 4, cudaMemcpyHostToDevice));
  PLIMSOLL_CUDA(cudaMemcpy(rng.data, numbers, sizeof numbers, cudaMemcpyHostToDevice));
  for (int set = 0; set < kSets; ++set) {
    AttentionFwdArgs& f = forward[static_cast<size_t>(set)];
    AttentionBwdArgs& b = backward[static_cast<size_t>(set)];
    const View qkv = block(3 * columns * dims.tokens, shape.dtype);
    const View d_qkv = block(3 * columns * dims.tokens, shape.dtype);
    const auto third = [&](const View& of, int which) {
      auto* start = static_cast<std::byte*>(of.data) + which * columns * dtype_bytes(shape.dtype);
      return View{start, shape.dtype};
    };
    f.dims = b.dims = dims;
    f.options.scale = 1.0 / std::sqrt(static_cast<double>(dims.head_dim));
    f.options.dropout = shape.dropout;
    b.options = f.options;
    f.q = b.q = {third(qkv, 0), 3 * columns};
    f.k = b.k = {third(qkv, 1), 3 * columns};
    f.v = b.v = {third(qkv, 2), 3 * columns};
    f.cu_seqlens = b.cu_seqlens = lengths;
    b.o = f.o = block(columns * dims.tokens, shape.dtype);
    b.lse = f.lse = block(dims.heads * dims.tokens, DType::kF32);
    b.d_o = block(columns * dims.tokens, shape.dtype);
    b.d_q = {third(d_qkv, 0), 3 * columns};
    b.d_k = {third(d_qkv, 1), 3 * columns};
    b.d_v = {third(d_qkv, 2), 3 * columns};
    b.scratch = block(scratch_bytes / 4, DType::kF32);
    b.scratch.dtype = DType::kU8;
    b.scratch_bytes = scratch_bytes;
  }
  const int64_t* draws = shape.dropout > 0 ? rng.as<int64_t>() : nullptr;
  const double fwd =
      median_ms([&](int set) { attention_fwd_cuda(forward[static_cast<size_t>(set)], draws, nullptr); });
  const double bwd =
      median_ms([&](int set) { attention_bwd_cuda(backward[static_cast<size_t>(set)], draws, nullptr); });
  std::printf("%-34s fwd %8.4f ms %6.1f TFLOP/s   bwd %8.4f ms %6.1f TFLOP/s   both %8.4f ms\n", shape.name,
              fwd, 4e-9 * products / fwd, bwd, 10e-9 * products / bwd, fwd + bwd);
  if (shape.dtype == DType::kBF16 && shape.head_dim <= 64) {
    for (const int rows : {64, 128}) {
      const double f = median_ms([&](int set) {
        attention_fwd_cuda_mma_of(forward[static_cast<size_t>(set)], draws, {rows, 0, 0}, nullptr);
      });
      std::printf("  blocks of %3d rows: fwd %.4f ms;", rows, f);
      for (const int keys : {64, 128}) {
        const double b = median_ms([&](int set) {
          attention_bwd_cuda_mma_of(backward[static_cast<size_t>(set)], draws, {0, rows, keys}, nullptr);
        });
        std::printf(" bwd with %3d keys %.4f ms", keys, b);
      }
      std::printf("\n");
    }
  }
  for (void* data : blocks) PLIMSOLL_CUDA(cudaFree(data));
}

}  // namespace
}  // namespace plimsoll

int main() {
  using namespace plimsoll;  // NOLINT: the program of this file
  const std::vector<Shape> shapes = {
      {"32 x 16 x 512 x 64 bf16", std::vector<int>(32, 512), 16, 64, DType::kBF16, 0.0},
      {"32 x 16 x 512 x 64 bf16, p 0.1", std::vector<int>(32, 512), 16, 64, DType::kBF16, 0.1},
      {"8 x 16 x 512 x 64 bf16, p 0.1", std::vector<int>(8, 512), 16, 64, DType::kBF16, 0.1},
      {"32 x 12 x mean 53 x 64 bf16, p 0.1", short_texts(), 12, 64, DType::kBF16, 0.1},
      {"32 x 12 x 128 x 32 bf16, p 0.1", std::vector<int>(32, 128), 12, 32, DType::kBF16, 0.1},
      {"8 x 16 x 512 x 128 bf16", std::vector<int>(8, 512), 16, 128, DType::kBF16, 0.0},
      {"4 x 16 x 512 x 64 fp32", std::vector<int>(4, 512), 16, 64, DType::kF32, 0.0},
      {"4 x 16 x 512 x 64 fp32, p 0.1", std::vector<int>(4, 512), 16, 64, DType::kF32, 0.1},
      {"8 x 16 x 512 x 64 fp32", std::vector<int>(8, 512), 16, 64, DType::kF32, 0.0},
      {"32 x 12 x 128 x 32 fp32, p 0.1", std::vector<int>(32, 128), 12, 32, DType::kF32, 0.1},
      {"32 x 12 x mean 53 x 64 fp32, p 0.1", short_texts(), 12, 64, DType::kF32, 0.1},
  };
  try {
    for (const Shape& shape : shapes) run(shape);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
