// Times attention on the current GPU at the shapes of the project's speed targets. Prints the median time of single calls in
// milliseconds and the floating-point operations per second as attention.h counts them, forward and backward. Calls use several copies of
// the tensors in turn, so that no data stay in the cache between calls. This is a program without arguments that does not use a benchmark
// library.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "device/cuda/cuda_error.h"
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

// Returns the same 32 sequence lengths of up to 128, 53 on average, in every run.
std::vector<int> short_texts() {
  std::vector<int> lengths;
  for (int b = 0; b < 32; ++b) lengths.push_back(b == 0 ? 128 : 10 + (b * 29 + 7) % 83);
  return lengths;
}

// Fills a tensor with numbers between -1 and 1 from a hash of the index.
__global__ void fill(void* data, int64_t count, DType dtype) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const uint32_t hash = (static_cast<uint32_t>(i) * 2654435761u) ^ (static_cast<uint32_t>(i) >> 7) * 40503u;
    const float x = static_cast<float>(hash >> 8) * 0x1p-23f - 1.0f;
    if (dtype == DType::kF32) {
      static_cast<float*>(data)[i] = x;
    } else {  // bf16, by truncation; f16 would need a different conversion, but no shape in this file uses it
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

// All tensors of one shape on the device, in kSets copies that the timed calls use in turn.
class Tensors {
 public:
  explicit Tensors(const Shape& shape) : dtype_(shape.dtype) {
    std::vector<int32_t> cu_seqlens{0};
    for (const int length : shape.lengths) {
      cu_seqlens.push_back(cu_seqlens.back() + length);
      dims_.longest = std::max<int64_t>(dims_.longest, length);
      products_ += 1.0 * length * length * shape.heads * shape.head_dim;
    }
    dims_.tokens = cu_seqlens.back();
    dims_.sequences = static_cast<int64_t>(shape.lengths.size());
    dims_.heads = shape.heads;
    dims_.head_dim = shape.head_dim;
    lengths_ = block(dims_.sequences + 1, DType::kI32);
    rng_ = block(2, DType::kI64);
    const int64_t numbers[2] = {42, 7};
    PLIMSOLL_CUDA(
        cudaMemcpy(lengths_.data, cu_seqlens.data(), cu_seqlens.size() * 4, cudaMemcpyHostToDevice));
    PLIMSOLL_CUDA(cudaMemcpy(rng_.data, numbers, sizeof numbers, cudaMemcpyHostToDevice));
    for (int set = 0; set < kSets; ++set) add_set(shape);
  }
  ~Tensors() {
    for (void* data : blocks_) static_cast<void>(cudaFree(data));
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  const AttentionFwdArgs& forward(int set) const { return forward_[static_cast<size_t>(set)]; }
  const AttentionBwdArgs& backward(int set) const { return backward_[static_cast<size_t>(set)]; }
  const int64_t* rng() const { return forward_[0].options.dropout > 0 ? rng_.as<int64_t>() : nullptr; }
  // Returns the number of multiplications in one matrix product of attention: the sum of S^2 H D over the sequences of S rows.
  double products() const { return products_; }

 private:
  void add_set(const Shape& shape) {
    const int64_t columns = dims_.heads * dims_.head_dim;
    const int64_t scratch_bytes = attention_bwd_cuda_mma_scratch_bytes(dims_);
    const View qkv = block(3 * columns * dims_.tokens, dtype_);
    const View d_qkv = block(3 * columns * dims_.tokens, dtype_);
    AttentionFwdArgs f;
    AttentionBwdArgs b;
    f.dims = b.dims = dims_;
    f.options.scale = 1.0 / std::sqrt(static_cast<double>(dims_.head_dim));
    f.options.dropout = shape.dropout;
    b.options = f.options;
    f.q = b.q = {third(qkv, 0), 3 * columns};
    f.k = b.k = {third(qkv, 1), 3 * columns};
    f.v = b.v = {third(qkv, 2), 3 * columns};
    f.cu_seqlens = b.cu_seqlens = lengths_;
    b.o = f.o = block(columns * dims_.tokens, dtype_);
    b.lse = f.lse = block(dims_.heads * dims_.tokens, DType::kF32);
    b.d_o = block(columns * dims_.tokens, dtype_);
    b.d_q = {third(d_qkv, 0), 3 * columns};
    b.d_k = {third(d_qkv, 1), 3 * columns};
    b.d_v = {third(d_qkv, 2), 3 * columns};
    b.scratch = {block(scratch_bytes / 4, DType::kF32).data, DType::kU8};
    b.scratch_bytes = scratch_bytes;
    forward_.push_back(f);
    backward_.push_back(b);
  }
  View block(int64_t count, DType dtype) {
    blocks_.push_back(make(count, dtype));
    return {blocks_.back(), dtype};
  }
  View third(const View& of, int which) const {
    const int64_t bytes = which * dims_.heads * dims_.head_dim * dtype_bytes(dtype_);
    return {static_cast<std::byte*>(of.data) + bytes, dtype_};
  }

  DType dtype_;
  AttentionDims dims_;
  double products_ = 0;
  View lengths_, rng_;
  std::vector<AttentionFwdArgs> forward_;
  std::vector<AttentionBwdArgs> backward_;
  std::vector<void*> blocks_;
};

// Times the mma.sync kernels with 64 and with 128 rows per thread block.
void compare_blocks(const Tensors& tensors) {
  for (const int rows : {64, 128}) {
    const double fwd = median_ms([&](int set) {
      attention_fwd_cuda_mma_of(tensors.forward(set), tensors.rng(), {rows, 0, 0}, nullptr);
    });
    std::printf("  blocks of %3d rows: fwd %.4f ms;", rows, fwd);
    for (const int keys : {64, 128}) {
      const double bwd = median_ms([&](int set) {
        attention_bwd_cuda_mma_of(tensors.backward(set), tensors.rng(), {0, rows, keys}, nullptr);
      });
      std::printf(" bwd with %3d keys %.4f ms", keys, bwd);
    }
    std::printf("\n");
  }
}

// Times both passes of an implementation in tf32. `by` names the implementation in the printed line.
template <typename Forward, typename Backward>
void run_tf32(const char* by, const Tensors& tensors, const Forward& forward, const Backward& backward) {
  const double fwd = median_ms([&](int set) { forward(tensors.forward(set), tensors.rng(), nullptr); });
  const double bwd = median_ms([&](int set) { backward(tensors.backward(set), tensors.rng(), nullptr); });
  std::printf("  in tf32 by %s: fwd %.4f ms %.1f TFLOP/s, bwd %.4f ms %.1f TFLOP/s, both %.4f ms\n", by, fwd,
              4e-9 * tensors.products() / fwd, bwd, 10e-9 * tensors.products() / bwd, fwd + bwd);
}

// Returns the family of kernels to measure on Hopper without tf32: the warpgroup kernels for 16-bit tensors with heads of 33 to 64 columns,
// the mma.sync kernels for 16-bit tensors with other heads, and the tiled kernels for fp32.
std::string family_of(const Shape& shape) {
  if (shape.dtype == DType::kF32) return "tiled";
  return shape.head_dim > 32 && shape.head_dim <= 64 ? "wgmma" : "mma";
}

void run(const Shape& shape) {
  const Tensors tensors(shape);
  const AttentionDims dims = tensors.forward(0).dims;
  AttentionForward* const forward = attention_fwd_cuda_of("attention_fwd_cuda_" + family_of(shape), dims);
  AttentionBackward* const backward = attention_bwd_cuda_of("attention_bwd_cuda_" + family_of(shape), dims);
  const double fwd = median_ms([&](int set) { forward(tensors.forward(set), tensors.rng(), nullptr); });
  const double bwd = median_ms([&](int set) { backward(tensors.backward(set), tensors.rng(), nullptr); });
  std::printf("%-34s fwd %8.4f ms %6.1f TFLOP/s   bwd %8.4f ms %6.1f TFLOP/s   both %8.4f ms\n", shape.name,
              fwd, 4e-9 * tensors.products() / fwd, bwd, 10e-9 * tensors.products() / bwd, fwd + bwd);
  if (shape.dtype == DType::kBF16 && shape.head_dim <= 64) compare_blocks(tensors);
  if (shape.dtype == DType::kF32) {
    run_tf32("mma", tensors, attention_fwd_cuda_tf32, attention_bwd_cuda_tf32);
    run_tf32("wgmma", tensors, attention_fwd_cuda_tf32_wgmma, attention_bwd_cuda_tf32_wgmma);
  }
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
      {"32 x 16 x 512 x 64 fp32, p 0.1", std::vector<int>(32, 512), 16, 64, DType::kF32, 0.1},
      {"32 x 12 x 128 x 32 fp32, p 0.1", std::vector<int>(32, 128), 12, 32, DType::kF32, 0.1},
      {"32 x 12 x mean 53 x 64 fp32, p 0.1", short_texts(), 12, 64, DType::kF32, 0.1},
  };
  try {
    cudaDeviceProp card{};
    PLIMSOLL_CUDA(cudaGetDeviceProperties(&card, 0));
    std::printf("device %s\n", card.name);
    for (const Shape& shape : shapes) run(shape);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
