// Four kernels, one after the other, by blocks of 16 sequences, of a head, or of a part of a sequence:
// queries, u = W_k^T q, scores and sums of rows of x, and outputs from these sums. Only the third one reads x
// as a whole; it is bound by that.
#include "device/cuda/error.h"
#include "kernels/attention/attention_mma.cuh"
#include "kernels/attention/first_token_attention_cuda.h"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace {

using attention::exp2_approx;
using attention::load_matrices;
using attention::load_transposed;
using attention::multiply_add;
using attention::pack;
using attention::unpack;
using cuda::AnyFloats;
using cuda::AnyFloatsOut;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSide = 16;     // rows of a product's left operand: sequences, or heads
constexpr int kOutputs = 32;  // columns of a block's outputs
constexpr int kRows = 32;     // rows of x in a tile
// Floats from one row of scores to the next: rows of one product fall into different banks.
constexpr int kScoreStride = kRows + 8;

struct Kernel {
  const void* x = nullptr;
  const void* w = nullptr;
  AnyFloats bias;
  const int32_t* cu_seqlens = nullptr;
  AnyFloatsOut o;
  float* q = nullptr;       // [B, H D], times scale log2(e)
  void* u = nullptr;        // [B, H, C], of the type of x
  float* sums = nullptr;    // [B, parts, H, C]
  float2* parts = nullptr;  // [B, parts, H]: the largest score, and the sum of 2^(score - largest)
  float scale = 1.0f;
  int sequences = 0, heads = 0, head_dim = 0, num_parts = 0, part_rows = 0;
};

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % 32;
}
__device__ inline int warp() {
  return static_cast<int>(threadIdx.x) / 32;
}
// Two adjacent 16-bit numbers.
__device__ inline uint32_t pair_at(const void* data, int64_t element) {
  return *reinterpret_cast<const uint32_t*>(static_cast<const std::byte*>(data) + 2 * element);
}

// Rows (16) times rows `output` .. output + 31 of w, transposed, into `total` by thread: elements 2 t and
// 2 t + 1 of the 16 x 32 results. A warp sums an eighth of the columns; fragment(step, a) gives its left
// operands, of which there are kTerms (a number and what rounding left of it).
template <DType kType, int kColumns, int kTerms, typename Fragment>
__device__ inline float2 rows_times_weights(const void* w, int64_t output, const Fragment& fragment) {
  constexpr int kSteps = kColumns / kWarps / 16;
  __shared__ float parts[kWarps][kSide][kScoreStride];
  float acc[kOutputs / 8][4] = {};
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int column = (warp() * kSteps + step) * 16 + lane() % 4 * 2;
    uint32_t a[kTerms][4];
    fragment(column, a);
#pragma unroll
    for (int n = 0; n < kOutputs / 8; ++n) {
      const int64_t at = (output + 8 * n + lane() / 4) * kColumns + column;
      const uint32_t b0 = pair_at(w, at), b1 = pair_at(w, at + 8);
#pragma unroll
      for (int term = 0; term < kTerms; ++term) multiply_add<kType>(acc[n], a[term], b0, b1);
    }
  }
#pragma unroll
  for (int n = 0; n < kOutputs / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<float2*>(&parts[warp()][8 * half + lane() / 4][8 * n + lane() % 4 * 2]) = {
          acc[n][2 * half], acc[n][2 * half + 1]};
    }
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16 * 2;
  float2 total = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    total.x += parts[i][row][column];
    total.y += parts[i][row][column + 1];
  }
  return total;
}

// q of 16 sequences and 32 of all heads' outputs.
template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads) query_kernel(Kernel args) {
#ifdef PLIMSOLL_HAS_MMA
  const int first = static_cast<int>(blockIdx.y) * kSide, output = static_cast<int>(blockIdx.x) * kOutputs;
  int64_t rows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int b = first + 8 * half + lane() / 4;
    const bool used = b < args.sequences && args.cu_seqlens[b] < args.cu_seqlens[b + 1];
    rows[half] = used ? int64_t{args.cu_seqlens[b]} * kColumns : -1;
  }
  const auto fragment = [&](int column, uint32_t(&a)[1][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = rows[i % 2];
      a[0][i] = row < 0 ? 0 : pair_at(args.x, row + column + i / 2 * 8);
    }
  };
  const float2 total = rows_times_weights<kType, kColumns, 1>(args.w, output, fragment);
  const int b = first + static_cast<int>(threadIdx.x) / 16;
  const int n = output + static_cast<int>(threadIdx.x) % 16 * 2;
  if (b >= args.sequences) return;
  *reinterpret_cast<float2*>(args.q + int64_t{b} * args.heads * args.head_dim + n) = {
      (total.x + args.bias.at(n)) * args.scale, (total.y + args.bias.at(n + 1)) * args.scale};
#endif
}

// u of 16 sequences, a head, and two columns a thread.
template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads) key_kernel(Kernel args) {
#ifdef PLIMSOLL_HAS_MMA
  __shared__ float q[128][kSide];
  const int head = static_cast<int>(blockIdx.y), first = static_cast<int>(blockIdx.z) * kSide;
  const int64_t width = int64_t{args.heads} * args.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < kSide * args.head_dim; i += kThreads) {
    const int b = first + i / args.head_dim, d = i % args.head_dim;
    q[d][i / args.head_dim] = b < args.sequences ? args.q[b * width + head * args.head_dim + d] : 0.0f;
  }
  __syncthreads();
  const int column = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * 2;
  if (column >= kColumns) return;
  float2 sum[kSide] = {};
  const int64_t key = (width + head * args.head_dim) * kColumns + column;
#pragma unroll 8
  for (int d = 0; d < args.head_dim; ++d) {
    const float2 w = unpack<kType>(pair_at(args.w, key + int64_t{d} * kColumns));
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      sum[i].x += q[d][i] * w.x;
      sum[i].y += q[d][i] * w.y;
    }
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (first + i >= args.sequences) return;
    const int64_t at = (int64_t{first + i} * args.heads + head) * kColumns + column;
    reinterpret_cast<uint32_t*>(args.u)[at / 2] = pack<kType>(sum[i].x, sum[i].y);
  }
#endif
}

// Shared memory of row_sum_kernel.
template <int kColumns>
struct RowTiles {
  uint4 x[2][kRows * kColumns / 8];  // chunk c of row r at place c ^ r % 8
  float scores[kWarps][kSide][kScoreStride];
  uint32_t p[kSide][kRows / 2 + 4];  // pairs
  float shrink[kSide];
};

// The scores of all heads and the rows of a tile, and what becomes of the sums: 16 threads hold a head.
template <DType kType>
class Softmax {
 public:
  // Turns the warps' parts of scores of a tile with `there` rows into probabilities against the largest score
  // so far; the sums before shrink by shared.shrink.
  template <typename Tiles>
  __device__ void take(Tiles& shared, int there) {
    const int head = static_cast<int>(threadIdx.x) / 16, row = static_cast<int>(threadIdx.x) % 16 * 2;
    float2 score = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      const float2 part = *reinterpret_cast<const float2*>(&shared.scores[i][head][row]);
      score.x += part.x;
      score.y += part.y;
    }
    if (row >= there) score.x = -INFINITY;
    if (row + 1 >= there) score.y = -INFINITY;
    float largest = fmaxf(largest_, fmaxf(score.x, score.y));
#pragma unroll
    for (int apart = 8; apart > 0; apart /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
    const float shrink = exp2_approx(largest_ - largest);
    const float2 p = {exp2_approx(score.x - largest), exp2_approx(score.y - largest)};
    largest_ = largest;
    sum_ = sum_ * shrink + p.x + p.y;
    shared.p[head][row / 2] = pack<kType>(p.x, p.y);
    if (row == 0) shared.shrink[head] = shrink;
  }
  // The largest score and the sum of all 16 threads.
  __device__ float2 result() {
#pragma unroll
    for (int apart = 8; apart > 0; apart /= 2) sum_ += __shfl_xor_sync(0xffffffffu, sum_, apart);
    return {largest_, sum_};
  }

 private:
  float largest_ = -INFINITY;
  float sum_ = 0.0f;  // of this thread's rows
};

// A part of a sequence, all heads. A warp holds an eighth of the columns, of u and of the sums.
template <DType kType, int kColumns>
class RowSums {
 public:
  static constexpr int kSteps = kColumns / kWarps / 16;

  __device__ RowSums(const Kernel& args, int sequence, RowTiles<kColumns>& shared)
      : shared_(shared), tile_(attention::shared_address(&shared.x[0][0])) {
    const int64_t u = int64_t{sequence} * args.heads * kColumns;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int column = (warp() * kSteps + step) * 16 + lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = i % 2 * 8 + lane() / 4;
        u_[step][i] =
            head < args.heads ? pair_at(args.u, u + int64_t{head} * kColumns + column + i / 2 * 8) : 0;
      }
    }
  }

  // Starts copying a tile; rows from `there` on are zero.
  __device__ void copy(const void* x, int64_t row, int there, int stage) const {
    constexpr int kChunks = kColumns / 8;
    const auto* from = static_cast<const uint4*>(x) + row * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
      const int r = i / kChunks, chunk = i % kChunks;
      const uint32_t to = tile(stage) + static_cast<uint32_t>(r * kChunks + (chunk ^ (r & 7))) * 16;
      attention::copy_16(to, r < there ? from + i : from, r < there);
    }
  }

  // This warp's part of the scores.
  __device__ void score(int stage) const {
    float acc[kRows / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        uint32_t b[4];
        load_matrices(b, address(stage, 16 * n + lane() / 16 * 8 + lane() % 8, step, lane() / 8 % 2));
        multiply_add<kType>(acc[2 * n], u_[step], b[0], b[1]);
        multiply_add<kType>(acc[2 * n + 1], u_[step], b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      float* row = &shared_.scores[warp()][lane() / 4][8 * n + lane() % 4 * 2];
      *reinterpret_cast<float2*>(row) = {acc[n][0], acc[n][1]};
      *reinterpret_cast<float2*>(row + 8 * kScoreStride) = {acc[n][2], acc[n][3]};
    }
  }

  __device__ void add(int stage) {
    const float low = shared_.shrink[lane() / 4], high = shared_.shrink[lane() / 4 + 8];
#pragma unroll
    for (auto& acc : acc_) acc[0] *= low, acc[1] *= low, acc[2] *= high, acc[3] *= high;
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = shared_.p[lane() / 4 + i % 2 * 8][8 * k + lane() % 4 + i / 2 * 4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t b[4];
        load_transposed(b, address(stage, 16 * k + lane() % 16, step, lane() / 16));
        multiply_add<kType>(acc_[2 * step], a, b[0], b[1]);
        multiply_add<kType>(acc_[2 * step + 1], a, b[2], b[3]);
      }
    }
  }

  // Sums by head from `sums` on.
  __device__ void store(float* sums, int heads) const {
#pragma unroll
    for (int n = 0; n < 2 * kSteps; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int head = 8 * half + lane() / 4;
        const int column = warp() * kSteps * 16 + 8 * n + lane() % 4 * 2;
        if (head >= heads) continue;
        *reinterpret_cast<float2*>(sums + int64_t{head} * kColumns + column) = {acc_[n][2 * half],
                                                                                acc_[n][2 * half + 1]};
      }
    }
  }

 private:
  __device__ uint32_t tile(int stage) const {
    return tile_ + static_cast<uint32_t>(stage) * kRows * kColumns * 2;
  }
  // Half `half` of 16 columns of a row, for ldmatrix.
  __device__ uint32_t address(int stage, int row, int step, int half) const {
    const int chunk = (warp() * kSteps + step) * 2 + half;
    return tile(stage) + static_cast<uint32_t>(row * (kColumns / 8) + (chunk ^ (row & 7))) * 16;
  }

  RowTiles<kColumns>& shared_;
  uint32_t tile_;
  uint32_t u_[kSteps][4];
  float acc_[2 * kSteps][4] = {};
};

template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads, 1) row_sum_kernel(Kernel args) {
#ifdef PLIMSOLL_HAS_MMA
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<RowTiles<kColumns>*>(memory);
  const int sequence = static_cast<int>(blockIdx.y), part = static_cast<int>(blockIdx.x);
  const int64_t first = int64_t{args.cu_seqlens[sequence]} + int64_t{part} * args.part_rows;
  const int64_t left = args.cu_seqlens[sequence + 1] - first;
  const int rows = static_cast<int>(min(left, static_cast<int64_t>(args.part_rows)));
  const int64_t slot = (int64_t{sequence} * args.num_parts + part) * args.heads;
  const int head = static_cast<int>(threadIdx.x) / 16;
  Softmax<kType> softmax;
  if (rows > 0) {
    RowSums<kType, kColumns> sums(args, sequence, shared);
    sums.copy(args.x, first, rows, 0);
    for (int row = 0, stage = 0; row < rows; row += kRows, stage ^= 1) {
      attention::wait_for_copies();
      __syncthreads();
      if (row + kRows < rows) sums.copy(args.x, first + row + kRows, rows - row - kRows, stage ^ 1);
      sums.score(stage);
      __syncthreads();
      softmax.take(shared, rows - row);
      __syncthreads();
      sums.add(stage);
    }
    sums.store(args.sums + slot * kColumns, args.heads);
  }
  const float2 result = softmax.result();
  if (threadIdx.x % 16 == 0 && head < args.heads) args.parts[slot + head] = result;
#endif
}

// The share of each part of a sequence in a head's sums: to multiply with, so that the probabilities of all
// parts add up to 1.
__device__ inline void find_shares(const Kernel& args, int first, int head, float* shares) {
  if (threadIdx.x >= kSide) return;
  const int b = first + static_cast<int>(threadIdx.x);
  float* share = shares + threadIdx.x * args.num_parts;
  float largest = -INFINITY, sum = 0.0f;
  const float2* parts = args.parts + (int64_t{b} * args.num_parts) * args.heads + head;
  const int num_parts = b < args.sequences ? args.num_parts : 0;
  for (int i = 0; i < num_parts; ++i) largest = fmaxf(largest, parts[i * args.heads].x);
  for (int i = 0; i < num_parts; ++i) {
    const float2 part = parts[i * args.heads];
    share[i] = part.y > 0.0f ? exp2_approx(part.x - largest) : 0.0f;
    sum += share[i] * part.y;
  }
  for (int i = 0; i < args.num_parts; ++i) share[i] = sum > 0.0f ? share[i] / sum : 0.0f;
}

// 32 outputs of a head for 16 sequences.
template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads) output_kernel(Kernel args) {
#ifdef PLIMSOLL_HAS_MMA
  extern __shared__ uint4 memory[];
  auto* shares = reinterpret_cast<float*>(memory);
  const int first = static_cast<int>(blockIdx.y) * kSide, output = static_cast<int>(blockIdx.x) * kOutputs;
  const int head = output / args.head_dim;
  find_shares(args, first, head, shares);
  __syncthreads();
  // Two columns of the sum of x by probabilities, all parts.
  const auto mean_at = [&](int sequence, int column) {
    float2 mean = {0.0f, 0.0f};
    for (int i = 0; i < args.num_parts; ++i) {
      const float share = shares[sequence * args.num_parts + i];
      if (share == 0.0f) continue;  // nothing may have been written there
      const int64_t slot = (int64_t{first + sequence} * args.num_parts + i) * args.heads + head;
      const float2 sum = *reinterpret_cast<const float2*>(args.sums + slot * kColumns + column);
      mean.x += share * sum.x;
      mean.y += share * sum.y;
    }
    return mean;
  };
  const auto fragment = [&](int column, uint32_t(&a)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 mean = mean_at(i % 2 * 8 + lane() / 4, column + i / 2 * 8);
      a[0][i] = pack<kType>(mean.x, mean.y);
      const float2 rounded = unpack<kType>(a[0][i]);
      a[1][i] = pack<kType>(mean.x - rounded.x, mean.y - rounded.y);
    }
  };
  const int64_t values = 2 * int64_t{args.heads} * args.head_dim;
  const float2 total = rows_times_weights<kType, kColumns, 2>(args.w, values + output, fragment);
  const int b = first + static_cast<int>(threadIdx.x) / 16;
  const int n = output + static_cast<int>(threadIdx.x) % 16 * 2;
  if (b >= args.sequences) return;
  const bool used = args.cu_seqlens[b] < args.cu_seqlens[b + 1];
  const int64_t at = int64_t{b} * args.heads * args.head_dim + n;
  args.o.store(at, used ? total.x + args.bias.at(values + n) : 0.0f);
  args.o.store(at + 1, used ? total.y + args.bias.at(values + n + 1) : 0.0f);
#endif
}

template <DType kType, int kColumns>
void launch(const Kernel& args, CudaStream stream) {
  const auto outputs = static_cast<unsigned>(args.heads * args.head_dim / kOutputs);
  const auto sixteens = static_cast<unsigned>(cuda::ceil_div(args.sequences, kSide));
  query_kernel<kType, kColumns><<<dim3(outputs, sixteens), kThreads, 0, stream>>>(args);
  PLIMSOLL_CHECK_LAUNCH("query_kernel");
  const auto columns = static_cast<unsigned>(cuda::ceil_div(kColumns, 2 * kThreads));
  key_kernel<kType, kColumns>
      <<<dim3(columns, static_cast<unsigned>(args.heads), sixteens), kThreads, 0, stream>>>(args);
  PLIMSOLL_CHECK_LAUNCH("key_kernel");
  constexpr auto kShared = static_cast<int>(sizeof(RowTiles<kColumns>));
  PLIMSOLL_CUDA(cudaFuncSetAttribute(row_sum_kernel<kType, kColumns>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  const dim3 parts(static_cast<unsigned>(args.num_parts), static_cast<unsigned>(args.sequences));
  row_sum_kernel<kType, kColumns><<<parts, kThreads, kShared, stream>>>(args);
  PLIMSOLL_CHECK_LAUNCH("row_sum_kernel");
  const auto shares = static_cast<unsigned>(kSide * args.num_parts) * 4;
  output_kernel<kType, kColumns><<<dim3(outputs, sixteens), kThreads, shares, stream>>>(args);
  PLIMSOLL_CHECK_LAUNCH("output_kernel");
}

template <DType kType>
void launch_for(int64_t columns, const Kernel& args, CudaStream stream) {
  switch (columns) {
    case 384:
      return launch<kType, 384>(args, stream);
    case 512:
      return launch<kType, 512>(args, stream);
    case 768:
      return launch<kType, 768>(args, stream);
    default:
      return launch<kType, 1024>(args, stream);
  }
}

Kernel kernel_args(const FirstTokenAttentionArgs& args) {
  const AttentionDims& dims = args.dims;
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  std::byte* u = scratch + first_token_attention_query_bytes(dims);
  std::byte* sums = u + first_token_attention_key_bytes(dims, args.columns);
  const int64_t parts = first_token_attention_parts(dims.longest);
  const int64_t sum_bytes = attention_round_up(dims.sequences * dims.heads * parts * args.columns * 4, 256);
  return {.x = args.x_TC.data,
          .w = args.w_3HDC.data,
          .bias = cuda::any_floats(args.bias_3HD),
          .cu_seqlens = args.cu_seqlens.as<int32_t>(),
          .o = cuda::any_floats_out(args.o_BHD),
          .q = reinterpret_cast<float*>(scratch),
          .u = u,
          .sums = reinterpret_cast<float*>(sums),
          .parts = reinterpret_cast<float2*>(sums + sum_bytes),
          .scale = static_cast<float>(args.scale) * attention::kLog2E,
          .sequences = static_cast<int>(dims.sequences),
          .heads = static_cast<int>(dims.heads),
          .head_dim = static_cast<int>(dims.head_dim),
          .num_parts = static_cast<int>(parts),
          .part_rows = static_cast<int>(first_token_attention_part_rows(dims.longest))};
}

}  // namespace

void first_token_attention_cuda(const FirstTokenAttentionArgs& args, CudaStream stream) {
  const AttentionDims& dims = args.dims;
  cuda::check_cuda_operands(
      "first_token_attention_cuda",
      {{"x", args.x_TC}, {"w", args.w_3HDC}, {"bias", args.bias_3HD}, {"o", args.o_BHD}});
  PLIMSOLL_CHECK(args.cu_seqlens && args.cu_seqlens.dtype == DType::kI32, "cu_seqlens is missing or not i32");
  PLIMSOLL_CHECK(first_token_attention_sizes_fit(dims, args.columns) && args.x_TC.dtype == args.w_3HDC.dtype,
                 "{} columns, {} heads of {}, {} by {}", args.columns, dims.heads, dims.head_dim,
                 dtype_name(args.x_TC.dtype), dtype_name(args.w_3HDC.dtype));
  PLIMSOLL_CHECK(
      args.scratch && args.scratch_bytes >= first_token_attention_cuda_scratch_bytes(dims, args.columns),
      "{} bytes of scratch", args.scratch_bytes);
  if (dims.sequences <= 0) return;
  if (args.x_TC.dtype == DType::kBF16)
    return launch_for<DType::kBF16>(args.columns, kernel_args(args), stream);
  PLIMSOLL_CHECK(args.x_TC.dtype == DType::kF16, "first_token_attention of {}", dtype_name(args.x_TC.dtype));
  launch_for<DType::kF16>(args.columns, kernel_args(args), stream);
}

}  // namespace plimsoll
