#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/embedding/cuda/embedding_bwd.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kTokens = 4;  // number of tokens that a warp loads before it adds the first one

// Sums both rows of a table. The warps divide the sorted tokens as in column_sums_kernel: warp w of block i starts at token i *
// kColumnSumWarps + w and advances by the number of warps of all blocks. If adjacent tokens of the batch have the same id, they are also
// adjacent in the sorted order. The warps then read adjacent rows of d_x at the same time.
template <typename X, int N>
__global__ void __launch_bounds__(kColumnSumWarps * 32, kColumnSumBlocks)
    add_two_rows_kernel(const __grid_constant__ EmbeddingBwd a, const X* d_x, PartialSums partials) {
  __shared__ float shared[kTwoRows][kColumnSumWarps - 1][N][32];
  wait_for_launch_before();
  let_next_launch_begin();
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * 32 + lane) * N;
  const bool inside = c < a.C;
  const int sweep = static_cast<int>(partials.num_blocks) * kColumnSumWarps;
  const int T = static_cast<int>(a.T);
  unsigned wanted = 0;
#pragma unroll
  for (int row = 0; row < kTwoRows; ++row) {
    if (row >= a.first_row && row < a.first_row + a.num_rows && row != a.padding_id) wanted |= 1u << row;
  }
  // For position i of the sorted tokens, returns 2 * token + row, where `row` is the row of the table (0 or 1). Returns -1 if there is no
  // such token or if its gradient must not be added to the table.
  const auto place_at = [&](int i) {
    const int2 pair = i < T ? a.sorted.pairs[i] : make_int2(kTwoRows, 0);
    return pair.x < kTwoRows && (wanted >> pair.x & 1u) != 0 ? 2 * pair.y + pair.x : -1;
  };
  float sums[kTwoRows][N] = {};
  int i = static_cast<int>(blockIdx.y) * kColumnSumWarps + warp;
  int coming[kTokens];
#pragma unroll
  for (int u = 0; u < kTokens; ++u) coming[u] = place_at(i + u * sweep);
#pragma unroll 1
  for (; i < T; i += kTokens * sweep) {
    Raw<X, N> raw[kTokens] = {};
    int places[kTokens];
#pragma unroll
    for (int u = 0; u < kTokens; ++u) {
      places[u] = coming[u];
      if (inside && places[u] >= 0)
        raw[u] = load_raw<X, N>(d_x + static_cast<int64_t>(places[u] / 2) * a.C + c);
    }
#pragma unroll
    for (int u = 0; u < kTokens; ++u) coming[u] = place_at(i + (kTokens + u) * sweep);
#pragma unroll
    for (int u = 0; u < kTokens; ++u) {
      if (places[u] < 0) continue;
      float terms[N];
      unpack<X, N>(raw[u], terms);
      if (places[u] % 2 == 0) {
#pragma unroll
        for (int k = 0; k < N; ++k) sums[0][k] += terms[k];
      } else {
#pragma unroll
        for (int k = 0; k < N; ++k) sums[1][k] += terms[k];
      }
    }
  }
  if (warp > 0) {
#pragma unroll
    for (int row = 0; row < kTwoRows; ++row) {
#pragma unroll
      for (int k = 0; k < N; ++k) shared[row][warp - 1][k][lane] = sums[row][k];
    }
  }
  __syncthreads();
  if (warp > 0 || !inside) return;
#pragma unroll
  for (int row = 0; row < kTwoRows; ++row) {
    for (int other = 0; other < kColumnSumWarps - 1; ++other) {
#pragma unroll
      for (int k = 0; k < N; ++k) sums[row][k] += shared[row][other][k][lane];
    }
    store_floats<float, N>(partials.row(row, blockIdx.y) + c, sums[row]);
  }
}

}  // namespace

template <typename X>
void launch_two_rows(const EmbeddingBwd& operands, const X* d_x, CudaStream stream) {
  constexpr int kN = kPack<X>;
  const RowBlocks blocks = cuda_row_blocks(operands.T, operands.C);
  const PartialSums partials{operands.partials, blocks.num_blocks, cuda_partial_stride(operands.C)};
  if (blocks.num_blocks > 0) {
    const dim3 grid(static_cast<unsigned>(ceil_div(operands.C, 32 * kN)),
                    static_cast<unsigned>(blocks.num_blocks));
    launch_early(add_two_rows_kernel<X, kN>, {grid, dim3(32, kColumnSumWarps)}, stream, operands, d_x,
                 partials);
  }
  SumDestinations to{};
  for (int64_t row = operands.first_row; row < operands.first_row + operands.num_rows; ++row) {
    to.sum[row] = {operands.d_table + (row - operands.first_row) * operands.C, DType::kF32};
  }
  add_up_partials(partials, to, kTwoRows, operands.C, operands.add, stream);
}
template void launch_two_rows(const EmbeddingBwd&, const __nv_bfloat16*, CudaStream);
template void launch_two_rows(const EmbeddingBwd&, const __half*, CudaStream);

}  // namespace plimsoll::cuda
