#include "kernels/embedding/cuda/embedding_bwd.cuh"

#include <algorithm>

namespace plimsoll::cuda {
namespace {

constexpr int kPiece = static_cast<int>(kEmbeddingPiece);
constexpr int kPieceThreads = 128;
constexpr int kRows = 8;  // of a piece that a thread loads at once
static_assert(kPiece % kRows == 0);

// All tokens are sorted and cut into pieces whatever rows are wanted, so that an id's sum is taken in one
// order.
struct Pieces {
  SortedTokens sorted;
  float* partials;  // [pieces, 2, stride]: the sum of the piece's first id and of its last
  int64_t stride;
  int64_t T, C, V;
  float* d_table;
  int64_t first_row, num_rows;  // of the table: what d_table holds
  AddFlag add;
};

__global__ void __launch_bounds__(256) zero_table_kernel(float* table, int64_t count, AddFlag add) {
  if (add.get()) return;
  const int64_t packs = reinterpret_cast<uintptr_t>(table) % 16 == 0 ? count / 4 : 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < packs; i += stride) {
    reinterpret_cast<float4*>(table)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  for (int64_t i = packs * 4 + first; i < count; i += stride) table[i] = 0.0f;
}

// What an id's sum becomes when its last token of the piece has been added. An id that goes on beside the
// piece is left to the next launch: as the piece's first sum where it came from before, else as its last.
template <int N>
__device__ __forceinline__ void finish_id(const Pieces& a, int64_t piece, int32_t id, bool from_before,
                                          bool goes_on, bool adds, int64_t c, float (&sum)[N]) {
  if (from_before || goes_on) {
    store_floats<float, N>(a.partials + (piece * 2 + (from_before ? 0 : 1)) * a.stride + c, sum);
  } else if (id >= a.first_row && id < a.first_row + a.num_rows) {
    float* row = a.d_table + (id - a.first_row) * a.C + c;
    if (adds) {
      float old[N];
      load_floats<float, N>(row, old);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += old[i];
    }
    store_floats<float, N>(row, sum);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] = 0.0f;
}

// A block takes a piece and some columns.
template <typename X, int N>
__global__ void __launch_bounds__(kPieceThreads)
    add_pieces_kernel(const __grid_constant__ Pieces a, const X* d_x) {
  __shared__ int32_t ids[kPiece + 2], tokens[kPiece];  // ids with the neighbours of the piece
  const int64_t piece = blockIdx.x;
  const int64_t begin = piece * kPiece;
  for (int i = static_cast<int>(threadIdx.x); i < kPiece + 2; i += kPieceThreads) {
    const int64_t at = begin + i - 1;
    // Beyond the ends are ids that no token has.
    ids[i] = at >= 0 && at < a.T ? a.sorted.ids[at] : -1;
    if (i >= 1 && i <= kPiece) tokens[i - 1] = at < a.T ? a.sorted.tokens[at] : 0;
  }
  __syncthreads();
  const int64_t c = (static_cast<int64_t>(blockIdx.y) * kPieceThreads + threadIdx.x) * N;
  if (c >= a.C) return;
  const bool adds = a.add.get();
  bool from_before = ids[0] == ids[1];
  float sum[N] = {};
  for (int base = 0; base < kPiece; base += kRows) {
    Raw<X, N> raw[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int32_t id = ids[base + r + 1];
      if (id >= 0 && id < a.V)
        raw[r] = load_raw<X, N>(d_x + static_cast<int64_t>(tokens[base + r]) * a.C + c);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int32_t id = ids[base + r + 1];
      if (id < 0 || id >= a.V) return;  // the tokens without a gradient come last
      float terms[N];
      unpack<X, N>(raw[r], terms);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += terms[i];
      const bool last_of_piece = base + r + 1 == kPiece;
      const bool same_next = ids[base + r + 2] == id;
      if (last_of_piece || !same_next) {
        finish_id<N>(a, piece, id, from_before, same_next, adds, c, sum);
        from_before = false;
      }
    }
  }
}

constexpr int kJoinWarps = 8;

// The number of sorted ids up to and including `id`.
__device__ int64_t end_of_id(const Pieces& a, int32_t id, int64_t low) {
  int64_t high = a.T;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (a.sorted.ids[middle] <= id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The piece in which an id begins that goes on beyond it adds up that id's sums: the warps take the pieces in
// turn, and theirs are added in order. blockDim = (32, kJoinWarps).
template <int N>
__global__ void __launch_bounds__(32 * kJoinWarps) join_pieces_kernel(const __grid_constant__ Pieces a) {
  __shared__ float shared[kJoinWarps - 1][N][32];
  const int64_t piece = blockIdx.x;
  const int64_t last = piece * kPiece + kPiece - 1;
  if (last + 1 >= a.T) return;
  const int32_t id = a.sorted.ids[last];
  if (id >= a.V || a.sorted.ids[last + 1] != id) return;
  const int64_t begin = piece * kPiece;
  const bool from_before = begin > 0 && a.sorted.ids[begin - 1] == id;
  if (from_before) return;
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t last_piece = (end_of_id(a, id, last + 1) - 1) / kPiece;
  const int64_t c = (static_cast<int64_t>(blockIdx.y) * 32 + lane) * N;
  float sum[N] = {};
  if (c < a.C) {
#pragma unroll 4
    for (int64_t p = piece + warp; p <= last_piece; p += kJoinWarps) {
      float terms[N];
      load_floats<float, N>(a.partials + (p * 2 + (p == piece ? 1 : 0)) * a.stride + c, terms);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += terms[i];
    }
  }
  if (warp > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) shared[warp - 1][i][lane] = sum[i];
  }
  __syncthreads();
  if (warp > 0 || c >= a.C) return;
  for (int other = 0; other < kJoinWarps - 1; ++other) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += shared[other][i][lane];
  }
  finish_id<N>(a, piece, id, false, false, a.add.get(), c, sum);
}

template <typename X, int N, int kJoinN>
void launch_pieces(const Pieces& pieces, const X* d_x, CudaStream stream) {
  const int64_t count = ceil_div(pieces.T, kPiece);
  const dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>(ceil_div(pieces.C, kPieceThreads * N)));
  add_pieces_kernel<X, N><<<grid, kPieceThreads, 0, stream>>>(pieces, d_x);
  PLIMSOLL_CHECK_LAUNCH("add_pieces");
  const dim3 join_grid(static_cast<unsigned>(count), static_cast<unsigned>(ceil_div(pieces.C, 32 * kJoinN)));
  join_pieces_kernel<kJoinN><<<join_grid, dim3(32, kJoinWarps), 0, stream>>>(pieces);
  PLIMSOLL_CHECK_LAUNCH("join_pieces");
}

}  // namespace

void launch_embedding_bwd(const EmbeddingBwd& operands, CudaStream stream) {
  if (operands.V <= 0 || operands.C <= 0) return;
  const int64_t count = operands.num_rows * operands.C;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(ceil_div(count, 256 * 4 * 4), 4096));
  zero_table_kernel<<<blocks, 256, 0, stream>>>(operands.d_table, count, operands.add);
  PLIMSOLL_CHECK_LAUNCH("zero_table");
  if (operands.T <= 0) return;
  const int64_t array = (operands.T * 4 + 15) / 16 * 4;  // elements of one array of the sort
  auto* integers = static_cast<int32_t*>(operands.scratch);
  const SortedTokens halves[2] = {{integers, integers + array}, {integers + 2 * array, integers + 3 * array}};
  const Pieces pieces{.sorted = launch_sort_by_id(operands, halves, stream),
                      .partials = reinterpret_cast<float*>(integers + 4 * array),
                      .stride = (operands.C + 3) / 4 * 4,
                      .T = operands.T,
                      .C = operands.C,
                      .V = operands.V,
                      .d_table = operands.d_table,
                      .first_row = operands.first_row,
                      .num_rows = operands.num_rows,
                      .add = operands.add};
  with_cuda_type(operands.d_x.dtype, [&](auto type) {
    using X = decltype(type);
    const auto* d_x = static_cast<const X*>(operands.d_x.data);
    if (operands.C % kPack<X> == 0 &&
        aligned_to_packs({operands.d_x.data, operands.d_table, operands.scratch})) {
      launch_pieces<X, kPack<X>, 4>(pieces, d_x, stream);
    } else {
      launch_pieces<X, 1, 1>(pieces, d_x, stream);
    }
  });
}

}  // namespace plimsoll::cuda
