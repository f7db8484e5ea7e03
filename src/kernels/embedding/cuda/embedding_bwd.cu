#include "kernels/embedding/cuda/embedding_bwd.cuh"

#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMostTokens = 128;  // of a piece
// A block that writes zeros looks after as many rows of the table as it has threads.
constexpr int kZeroRows = kThreads;

// Pieces so long that a large batch has 1024 of them: enough to keep every multiprocessor busy, few enough
// that their sums are little beside what is read.
int tokens_of_piece(int64_t T) {
  int64_t tokens = kEmbeddingPiece;
  while (tokens < kMostTokens && ceil_div(T, tokens) > 1024) tokens *= 2;
  return static_cast<int>(tokens);
}

// The columns of a thread: kPacks packs of N, each beside those of the block's other threads.
template <int N, int kPacks>
struct Columns {
  static constexpr int kPerBlock = kThreads * N * kPacks;
  static __device__ __forceinline__ int64_t first(int pack) {
    return static_cast<int64_t>(blockIdx.y) * kPerBlock +
           (pack * kThreads + static_cast<int>(threadIdx.x)) * N;
  }
};

// Zeros in the rows without a token.
template <int N, int kPacks>
__device__ __forceinline__ void zero_rows(const Pieces& a, int64_t block) {
  if (a.add.get()) return;
  __shared__ bool has_token[kZeroRows];
  const int64_t first = block * kZeroRows;
  const int64_t id = a.first_row + first + threadIdx.x;
  int64_t low = 0, high = a.T;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (a.sorted.id(middle) < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  has_token[threadIdx.x] = low < a.T && a.sorted.id(low) == id;
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

// What an id's sum becomes when its last token of the piece has been added. An id that goes on beside the
// piece is left to the next launch: as the piece's first sum where it came from before, else as its last.
template <int N>
__device__ __forceinline__ void finish_id(const Pieces& a, int64_t piece, int32_t id, bool from_before,
                                          bool goes_on, bool adds, int64_t c, float (&sum)[N]) {
  if (from_before || goes_on) {
    store_sum<N>(a.partial(piece, from_before ? kFirstSum : kLastSum) + c, sum);
  } else {
    a.write_row<N>(id, c, adds, sum);
  }
}

// Blocks of the first kind write zeros; the others each add up a piece. kRows tokens' rows are on their way
// at once.
template <typename X, int N, int kPacks, int kRows>
__global__ void __launch_bounds__(kThreads)
    add_pieces_kernel(const __grid_constant__ Pieces a, const X* d_x, unsigned zero_blocks) {
  if (blockIdx.x < zero_blocks) return zero_rows<N, kPacks>(a, blockIdx.x);
  __shared__ int32_t ids[kMostTokens + 2], tokens[kMostTokens];  // ids with the neighbours of the piece
  const int64_t piece = blockIdx.x - zero_blocks;
  const int64_t begin = piece * a.tokens;
  for (int i = static_cast<int>(threadIdx.x); i < a.tokens + 2; i += kThreads) {
    const int64_t at = begin + i - 1;
    // Beyond the ends are ids that no token has.
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
      if (id < 0 || id >= a.V) return;  // the tokens without a gradient come last
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
        if (c < a.C) finish_id<N>(a, piece, id, from_before, goes_on, adds, c, sum[j]);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[j][i] = 0.0f;
      }
      from_before = false;
    }
  }
}

template <typename X, int N, int kPacks, int kRows>
void launch_add(const Pieces& pieces, const X* d_x, CudaStream stream) {
  const auto zero_blocks = static_cast<unsigned>(ceil_div(pieces.num_rows, kZeroRows));
  const dim3 grid(zero_blocks + static_cast<unsigned>(pieces.count()),
                  static_cast<unsigned>(ceil_div(pieces.C, Columns<N, kPacks>::kPerBlock)));
  add_pieces_kernel<X, N, kPacks, kRows><<<grid, kThreads, 0, stream>>>(pieces, d_x, zero_blocks);
  PLIMSOLL_CHECK_LAUNCH("add_pieces");
}

}  // namespace

void launch_embedding_bwd(const EmbeddingBwd& operands, CudaStream stream) {
  if (operands.num_rows <= 0 || operands.C <= 0) return;
  const int64_t half = (operands.T * 4 + 15) / 16 * 4;  // pairs of one half of the sort, and some room
  auto* pairs = static_cast<int2*>(operands.scratch);
  const SortedTokens halves[2] = {{pairs}, {pairs + half}};
  const Pieces pieces{.sorted = operands.T > 0 ? launch_sort_by_id(operands, halves, stream) : halves[0],
                      .partials = reinterpret_cast<float*>(pairs + 2 * half),
                      .stride = (operands.C + 3) / 4 * 4,
                      .T = operands.T,
                      .C = operands.C,
                      .V = operands.V,
                      .tokens = tokens_of_piece(operands.T),
                      .d_table = operands.d_table,
                      .first_row = operands.first_row,
                      .num_rows = operands.num_rows,
                      .add = operands.add};
  const bool packs =
      operands.C % 4 == 0 && aligned_to_packs({operands.d_x.data, operands.d_table, operands.scratch});
  with_cuda_type(operands.d_x.dtype, [&](auto type) {
    using X = decltype(type);
    const auto* d_x = static_cast<const X*>(operands.d_x.data);
    if (packs) {
      launch_add<X, 4, 2, sizeof(X) == 2 ? 8 : 4>(pieces, d_x, stream);
    } else {
      launch_add<X, 1, 1, 8>(pieces, d_x, stream);
    }
  });
  launch_join(pieces, packs, stream);
}

}  // namespace plimsoll::cuda
