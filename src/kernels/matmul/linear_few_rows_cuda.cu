// Linear layers of few rows, x w^T + bias, such as those of a decoding step: their time is that of reading w once. A block
// computes 16 columns of y. Its warps take turns at groups of 32 terms, and each thread reads 16 bytes of two rows of w at a
// time, several groups ahead. Tensor cores multiply 16 columns with eight rows of x (mma m16n8k16, PTX ISA, "Warp-level
// matrix instructions"). An instruction adds products in any order of the terms, so a thread's eight neighbouring terms serve
// two instructions as they are. The warps' sums are added in order, and the result is rounded once after the bias.
#include <algorithm>

#include "base/check.h"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {
namespace {

constexpr int kWarps = 8;
constexpr int kColumns = 16;        // of y, per block
constexpr int kRowsPerProduct = 8;  // rows of x that an instruction multiplies
constexpr int kTerms = 32;          // terms of a group: eight for each of the four threads that share a row
static_assert(kTerms == kCudaFewRowsTerms);
// Distance between the sums of two rows in shared memory, by which the 32 threads of a warp write to different banks.
constexpr int kSumStride = 20;

struct FewRowsArgs {
  const void* x;
  const void* w;
  cuda::AnyFloats bias;
  void* y;
  int rows, columns, terms;
  int64_t y_stride;
};

// Compute capability 7.5 has neither this product nor bf16; nothing is launched there.
template <typename T>
__device__ __forceinline__ void multiply(float (&sums)[4], uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3,
                                         uint32_t x0, uint32_t x1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
  }
#else
  __trap();
#endif
}

// Reads 16 bytes of w, which no other block reads.
__device__ __forceinline__ uint4 load_once(const void* from) {
  uint4 words;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
}

// kTiles is the number of groups of eight rows. A warp has kAhead groups of terms in flight while it multiplies as many.
template <typename T, int kTiles>
__global__ void __launch_bounds__(kWarps * 32, 2)
    linear_few_rows_kernel(const __grid_constant__ FewRowsArgs args) {
  constexpr int kAhead = kTiles == 4 ? 2 : 4;
  __shared__ float sums[kWarps][kRowsPerProduct * kTiles][kSumStride];
  cuda::begin_early_launch();
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int group = lane / 4, quarter = lane % 4;
  const int first = static_cast<int>(blockIdx.x) * kColumns;
  // Columns and rows past the end repeat the last one; their sums are not stored.
  const auto row_of = [&](const void* matrix, int row, int count) {
    return static_cast<const T*>(matrix) + static_cast<int64_t>(min(row, count - 1)) * args.terms +
           8 * quarter;
  };
  const T* w[2] = {row_of(args.w, first + group, args.columns),
                   row_of(args.w, first + group + 8, args.columns)};
  const T* x[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
    x[tile] = row_of(args.x, kRowsPerProduct * tile + group, args.rows);

  const int groups = args.terms / kTerms;
  const auto load_w = [&](int at, uint4(&words)[kAhead][2]) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (at + u * kWarps >= groups) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) words[u][half] = load_once(w[half] + (at + u * kWarps) * kTerms);
    }
  };
  float acc[kTiles][4] = {};
  uint4 now[kAhead][2] = {}, next[kAhead][2] = {};
  load_w(warp, now);
#pragma unroll 1
  for (int at = warp; at < groups; at += kAhead * kWarps) {
    load_w(at + kAhead * kWarps, next);
    uint4 terms[kAhead][kTiles];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (at + u * kWarps >= groups) continue;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        terms[u][tile] = *reinterpret_cast<const uint4*>(x[tile] + (at + u * kWarps) * kTerms);
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (at + u * kWarps >= groups) continue;
      const uint4 low = now[u][0], high = now[u][1];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 of_x = terms[u][tile];
        multiply<T>(acc[tile], low.x, high.x, low.y, high.y, of_x.x, of_x.y);
        multiply<T>(acc[tile], low.z, high.z, low.w, high.w, of_x.z, of_x.w);
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      now[u][0] = next[u][0];
      now[u][1] = next[u][1];
    }
  }

#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[warp][kRowsPerProduct * tile + 2 * quarter + i % 2][group + 8 * (i / 2)] = acc[tile][i];
    }
  }
  __syncthreads();
  for (int i = warp * 32 + lane; i < kColumns * kRowsPerProduct * kTiles; i += kWarps * 32) {
    const int row = i / kColumns, column = i % kColumns;
    if (row >= args.rows || first + column >= args.columns) continue;
    float total[1] = {0.0f};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) total[0] += sums[other][row][column];
    if (args.bias.data != nullptr) {
      float bias[1];
      args.bias.load<1>(first + column, bias);
      total[0] += bias[0];
    }
    cuda::store_floats<T, 1>(static_cast<T*>(args.y) + row * args.y_stride + first + column, total);
  }
}

template <typename T, int kTiles>
void launch(const FewRowsArgs& args, CudaStream stream) {
  const auto blocks = static_cast<unsigned>((args.columns + kColumns - 1) / kColumns);
  cuda::launch_early(linear_few_rows_kernel<T, kTiles>, {dim3(blocks), dim3(32, kWarps)}, stream, args);
}

class FewRowsProduct final : public CudaMatmul {
 public:
  explicit FewRowsProduct(const MatmulProblem& problem) : problem_(problem) {}

  void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) override {
    PLIMSOLL_CHECK(accumulate == nullptr && !args.addend, "a product of few rows overwrites only");
    PLIMSOLL_CHECK(cuda::aligned_to_packs({args.a.data, args.b.data}),
                   "operands are not aligned to 16 bytes");
    if (problem_.m <= 0) return;
    const FewRowsArgs few{.x = args.a.data,
                          .w = args.b.data,
                          .bias = cuda::any_floats(args.bias),
                          .y = args.c.data,
                          .rows = static_cast<int>(problem_.m),
                          .columns = static_cast<int>(problem_.n),
                          .terms = static_cast<int>(problem_.k),
                          .y_stride = problem_.c_stride == 0 ? problem_.n : problem_.c_stride};
    problem_.a == DType::kBF16 ? run_as<__nv_bfloat16>(few, stream) : run_as<__half>(few, stream);
  }
  std::string description() const override { return "linear_few_rows_cuda"; }

 private:
  template <typename T>
  static void run_as(const FewRowsArgs& args, CudaStream stream) {
    if (args.rows <= kRowsPerProduct) return launch<T, 1>(args, stream);
    if (args.rows <= 2 * kRowsPerProduct) return launch<T, 2>(args, stream);
    launch<T, 4>(args, stream);
  }

  MatmulProblem problem_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_few_rows_matmul_cuda(const MatmulProblem& problem) {
  PLIMSOLL_CHECK(linear_few_rows_fit(problem), "few rows: the product {} x {} x {}", problem.m, problem.n,
                 problem.k);
  return std::make_unique<FewRowsProduct>(problem);
}

}  // namespace plimsoll
