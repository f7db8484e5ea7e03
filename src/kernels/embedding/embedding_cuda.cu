#include "kernels/embedding/embedding.h"

#include "kernels/embedding/cuda/embedding_bwd.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

struct Lookup {
  AnyFloats table[kMaxEmbeddingTables];
  const int32_t* ids[kMaxEmbeddingTables];
  int num_tables = 0;
  int64_t T = 0;
  int64_t C = 0;
  Integer num_tokens;
  int64_t first_row = 0;  // index, in the complete first table, of the first row that this rank stores
  int64_t num_rows = 0;   // number of rows of the first table that this rank stores; 0 means all rows
};

// Adds up one row of each of kTables tables per token. threadIdx.x numbers the packs (16 bytes of adjacent elements) of a row, and
// threadIdx.y the tokens. A thread loads its packs from all tables before it adds the first one.
template <typename X, int N, int kTables>
__global__ void __launch_bounds__(kThreads) embedding_sum_kernel(const __grid_constant__ Lookup a, X* x) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (t >= a.T) return;
  const bool used = t < a.num_tokens.get();
  int64_t rows[kTables];
#pragma unroll
  for (int k = 0; k < kTables; ++k) rows[k] = used ? static_cast<int64_t>(a.ids[k][t]) * a.C : 0;
  bool has_first = true;
  if (a.num_rows > 0) {
    const int64_t row = used ? row_in_first_table(a.ids[0][t], a.first_row, a.num_rows) : 0;
    has_first = row >= 0;
    rows[0] = has_first ? row * a.C : 0;
  }
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * N; c < a.C;
       c += static_cast<int64_t>(blockDim.x) * N) {
    float sum[N] = {};
    if (used) {
      float terms[kTables][N];
#pragma unroll
      for (int k = 0; k < kTables; ++k) a.table[k].load<N>(rows[k] + c, terms[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum[i] = has_first ? terms[0][i] : 0.0f;
#pragma unroll
        for (int k = 1; k < kTables; ++k) sum[i] += terms[k][i];
      }
    }
    store_floats<X, N>(x + t * a.C + c, sum);
  }
}

template <typename X, int N>
void launch_sum(const Lookup& operands, X* x, CudaStream stream) {
  const int64_t packs = ceil_div(operands.C, N);
  const int64_t width = packs >= kThreads ? kThreads : ceil_div(packs, 32) * 32;
  const dim3 block(static_cast<unsigned>(width), static_cast<unsigned>(kThreads / width));
  const auto blocks = static_cast<unsigned>(ceil_div(operands.T, block.y));
  switch (operands.num_tables) {
    case 1:
      embedding_sum_kernel<X, N, 1><<<blocks, block, 0, stream>>>(operands, x);
      break;
    case 2:
      embedding_sum_kernel<X, N, 2><<<blocks, block, 0, stream>>>(operands, x);
      break;
    case 3:
      embedding_sum_kernel<X, N, 3><<<blocks, block, 0, stream>>>(operands, x);
      break;
    default:
      embedding_sum_kernel<X, N, 4><<<blocks, block, 0, stream>>>(operands, x);
  }
  PLIMSOLL_CHECK_LAUNCH("embedding_sum");
}

void check_ids(const char* kernel, const ConstView& ids) {
  PLIMSOLL_CHECK(ids && ids.dtype == DType::kI32, "{}: ids must be present and i32", kernel);
}

}  // namespace
}  // namespace cuda

void embedding_sum_fwd_cuda(const EmbeddingSumFwdArgs& args, const int32_t* num_tokens, CudaStream stream) {
  constexpr const char* kKernel = "embedding_sum_fwd_cuda";
  PLIMSOLL_CHECK(1 <= args.num_tables && args.num_tables <= kMaxEmbeddingTables,
                 "{}: the number of tables must be 1 to {}, but is {}", kKernel, kMaxEmbeddingTables,
                 args.num_tables);
  cuda::check_cuda_operands(kKernel, {{"x", args.x}});
  cuda::Lookup operands;
  bool aligned = cuda::aligned_to_packs({args.x.data});
  for (int k = 0; k < args.num_tables; ++k) {
    const auto index = static_cast<size_t>(k);
    cuda::check_cuda_operands(kKernel, {{"table", args.tables[index]}});
    cuda::check_ids(kKernel, args.ids[index]);
    operands.table[k] = cuda::any_floats(args.tables[index]);
    operands.ids[k] = args.ids[index].as<int32_t>();
    aligned = aligned && cuda::aligned_to_packs({args.tables[index].data});
  }
  operands.num_tables = args.num_tables;
  operands.T = args.T;
  operands.C = args.C;
  operands.num_tokens = {num_tokens, false, args.num_tokens};
  operands.first_row = args.first_row;
  operands.num_rows = args.num_rows;
  if (args.T <= 0 || args.C <= 0) return;
  cuda::with_cuda_type(args.x.dtype, [&](auto type) {
    using X = decltype(type);
    auto* x = static_cast<X*>(args.x.data);
    if (args.C % 8 == 0 && aligned) {
      cuda::launch_sum<X, cuda::kPack<X>>(operands, x, stream);
    } else {
      cuda::launch_sum<X, 1>(operands, x, stream);
    }
  });
}

void embedding_bwd_cuda(const EmbeddingBwdArgs& args, const int32_t* accumulate, CudaStream stream) {
  constexpr const char* kKernel = "embedding_bwd_cuda";
  cuda::check_cuda_operands(kKernel, {{"d_x", args.d_x}});
  cuda::check_ids(kKernel, args.sorted);
  PLIMSOLL_CHECK(static_cast<bool>(args.scratch), "{} needs scratch memory, but has none", kKernel);
  cuda::launch_embedding_bwd({.d_x = args.d_x,
                              .sorted = {static_cast<const int2*>(args.sorted.data)},
                              .d_table = args.d_table.as<float>(),
                              .T = args.T,
                              .C = args.C,
                              .V = args.table_rows > 0 ? args.table_rows : args.V,
                              .first_row = args.first_row,
                              .num_rows = args.V,
                              .padding_id = args.padding_id,
                              .add = cuda::add_flag(accumulate, args.accumulate),
                              .partials = static_cast<float*>(args.scratch.data)},
                             stream);
}

}  // namespace plimsoll
