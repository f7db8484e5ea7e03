#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 128;
// The number of rows of the table that one block sets to zero, one row per thread.
constexpr int kZeroRows = kThreads;

// The columns that one thread handles: kPacks packs of N adjacent columns. In the order of the columns, pack 0 of all threads of the block
// comes first, then pack 1 of all threads, and so on.
template <int N, int kPacks>
struct Columns {
  static constexpr int kPerBlock = kThreads * N * kPacks;
  static __device__ __forceinline__ int64_t first(int pack) {
    return static_cast<int64_t>(blockIdx.y) * kPerBlock +
           (pack * kThreads + static_cast<int>(threadIdx.x)) * N;
  }
};

// Writes zeros to those rows of the table that have no token.
template <int N, int kPacks>
__device__ __forceinline__ void zero_rows(const Pieces& a, int64_t block) {
  if (a.add.get()) return;
  __shared__ bool has_token[kZeroRows];
  const int64_t first = block * kZeroRows;
  has_token[threadIdx.x] = a.has_token(first + threadIdx.x);
  __syncthreads();
  constexpr float kZeros[N] = {};
  for (int row = 0; row < kZeroRows && first + row < a.num_rows; ++row) {
    if (has_token[row]) continue;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int64_t c = Columns<N, kPacks>::first(j);
      if (c < a.C) store_sum<N>(a.d_table + (first + row) * a.C + c, kZeros);
    }
  }
}

// The first `zero_blocks` blocks write zeros to rows without a token; each of the other blocks sums a piece. A thread loads kRows rows of
// d_x before it adds the first one.
template <typename X, int N, int kPacks, int kRows>
__global__ void __launch_bounds__(kThreads)
    add_loaded_pieces_kernel(const __grid_constant__ Pieces a, const X* d_x, unsigned zero_blocks) {
  let_next_launch_begin();
  if (blockIdx.x < zero_blocks) return zero_rows<N, kPacks>(a, blockIdx.x);
  __shared__ int32_t ids[kMostLoadedTokens + 2],
      tokens[kMostLoadedTokens];  // `ids` also contains the ids directly before and after the piece
  const int64_t piece = blockIdx.x - zero_blocks;
  const int64_t begin = piece * a.tokens;
  for (int i = static_cast<int>(threadIdx.x); i < a.tokens + 2; i += kThreads) {
    const int64_t at = begin + i - 1;
    // Positions before the first and after the last token get id -1, which no table contains. The run of the first id thus begins in the
    // first piece, and the run of the last id ends in the last piece.
    const int2 pair = at >= 0 && at < a.T ? a.sorted.pairs[at] : make_int2(-1, 0);
    ids[i] = pair.x;
    if (i >= 1 && i <= a.tokens) tokens[i - 1] = pair.y;
  }
  __syncthreads();
  const bool adds = a.add.get();
  bool from_before = ids[0] == ids[1];
  float sum[kPacks][N] = {};
  for (int base = 0; base < a.tokens; base += kRows) {
    Raw<X, N> raw[kRows][kPacks] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!a.wants(ids[base + r + 1])) continue;
      const X* row = d_x + static_cast<int64_t>(tokens[base + r]) * a.C;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int64_t c = Columns<N, kPacks>::first(j);
        if (c < a.C) raw[r][j] = load_raw<X, N>(row + c);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int32_t id = ids[base + r + 1];
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        float terms[N];
        unpack<X, N>(raw[r][j], terms);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[j][i] += terms[i];
      }
      const bool goes_on = ids[base + r + 2] == id;
      if (goes_on && base + r + 1 < a.tokens) continue;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int64_t c = Columns<N, kPacks>::first(j);
        if (c < a.C && a.wants(id)) a.finish_id<N>(piece, id, from_before, goes_on, adds, c, sum[j]);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[j][i] = 0.0f;
      }
      from_before = false;
    }
  }
}

template <typename X, int N, int kPacks, int kRows>
void launch(const Pieces& pieces, const X* d_x, CudaStream stream) {
  const auto zero_blocks = static_cast<unsigned>(ceil_div(pieces.num_rows, kZeroRows));
  const dim3 grid(zero_blocks + static_cast<unsigned>(pieces.count()),
                  static_cast<unsigned>(ceil_div(pieces.C, Columns<N, kPacks>::kPerBlock)));
  add_loaded_pieces_kernel<X, N, kPacks, kRows><<<grid, kThreads, 0, stream>>>(pieces, d_x, zero_blocks);
  PLIMSOLL_CHECK_LAUNCH("add_loaded_pieces");
}

}  // namespace

template <typename X>
void launch_loaded_pieces(const Pieces& pieces, const X* d_x, bool packs, CudaStream stream) {
  if (packs) {
    launch<X, 4, 2, sizeof(X) == 2 ? 8 : 4>(pieces, d_x, stream);
  } else {
    launch<X, 1, 1, 8>(pieces, d_x, stream);
  }
}
template void launch_loaded_pieces(const Pieces&, const float*, bool, CudaStream);
template void launch_loaded_pieces(const Pieces&, const __nv_bfloat16*, bool, CudaStream);
template void launch_loaded_pieces(const Pieces&, const __half*, bool, CudaStream);

}  // namespace plimsoll::cuda
