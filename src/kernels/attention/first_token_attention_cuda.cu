// Runs four kernels one after another. They compute the queries q of the first tokens; u = W_k^T q; the scores and the weighted sums of
// rows of x (first_token_row_sums.cuh); and the outputs from these sums. Each thread block computes 16 sequences, except in the third
// kernel, where it computes one part of one sequence.
#include "device/cuda/cuda_error.h"
#include "kernels/attention/first_token_attention.h"
#include "kernels/attention/first_token_row_sums.cuh"

namespace plimsoll {
namespace first_token {
namespace {

// Computes the queries q of 16 sequences: 32 of their H * D elements per thread block.
template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads) query_kernel(KernelArgs args) {
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

// Computes the vectors u = W_k^T q of 16 sequences and one head; a thread computes two elements of each vector.
template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads) key_kernel(KernelArgs args) {
#ifdef PLIMSOLL_HAS_MMA
  __shared__ float q[kMostHeadDim][kSide];
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

// Computes the outputs o of 16 sequences: 32 elements of one head per thread block.
template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads) output_kernel(KernelArgs args) {
#ifdef PLIMSOLL_HAS_MMA
  extern __shared__ uint4 memory[];
  auto* shares = reinterpret_cast<float*>(memory);
  const int first = static_cast<int>(blockIdx.y) * kSide, output = static_cast<int>(blockIdx.x) * kOutputs;
  const int head = output / args.head_dim;
  find_shares(args, first, head, shares);
  __syncthreads();
  // Returns two columns of the mean of the rows of x, weighted by their probabilities, over all parts of a sequence.
  const auto mean_at = [&](int sequence, int column) {
    float2 mean = {0.0f, 0.0f};
    for (int i = 0; i < args.num_parts; ++i) {
      const float share = shares[sequence * args.num_parts + i];
      if (share == 0.0f) continue;  // an empty part of a sequence has no stored sums
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
void launch(const KernelArgs& args, CudaStream stream) {
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
void launch_for(int64_t columns, const KernelArgs& args, CudaStream stream) {
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

KernelArgs kernel_args(const FirstTokenAttentionArgs& args) {
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
}  // namespace first_token

void first_token_attention_cuda(const FirstTokenAttentionArgs& args, CudaStream stream) {
  const AttentionDims& dims = args.dims;
  cuda::check_cuda_operands(
      "first_token_attention_cuda",
      {{"x", args.x_TC}, {"w", args.w_3HDC}, {"bias", args.bias_3HD}, {"o", args.o_BHD}});
  PLIMSOLL_CHECK(args.cu_seqlens && args.cu_seqlens.dtype == DType::kI32,
                 "first_token_attention_cuda: cu_seqlens must be present and i32");
  PLIMSOLL_CHECK(
      first_token_attention_sizes_fit(dims, args.columns) && args.x_TC.dtype == args.w_3HDC.dtype,
      "first_token_attention_cuda needs sizes that first_token_attention_sizes_fit() accepts, and rows and "
      "weights of one type, but has {} columns, {} heads of size {}, rows of {} and weights of {}",
      args.columns, dims.heads, dims.head_dim, dtype_name(args.x_TC.dtype), dtype_name(args.w_3HDC.dtype));
  PLIMSOLL_CHECK(
      args.scratch && args.scratch_bytes >= first_token_attention_cuda_scratch_bytes(dims, args.columns),
      "first_token_attention_cuda needs {} bytes of scratch memory, but has {}",
      first_token_attention_cuda_scratch_bytes(dims, args.columns), args.scratch_bytes);
  if (dims.sequences <= 0) return;
  if (args.x_TC.dtype == DType::kBF16)
    return first_token::launch_for<DType::kBF16>(args.columns, first_token::kernel_args(args), stream);
  PLIMSOLL_CHECK(args.x_TC.dtype == DType::kF16, "first_token_attention_cuda supports bf16 and f16, not {}",
                 dtype_name(args.x_TC.dtype));
  first_token::launch_for<DType::kF16>(args.columns, first_token::kernel_args(args), stream);
}

}  // namespace plimsoll
