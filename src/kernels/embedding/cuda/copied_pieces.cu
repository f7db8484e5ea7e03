#include <algorithm>

#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/embedding/cuda/pieces.cuh"
#include "kernels/matmul/tma.cuh"

namespace plimsoll::cuda {
namespace {

// A kernel that computes the gradient of an embedding table. The sorted tokens are divided into pieces, one per block. In each block, one
// warp copies the gradient rows of the tokens into a ring buffer in shared memory, as far ahead as there is space. Other warps sum the rows
// that have arrived. One more warp writes zeros to rows of the table that have no token. A pack is a group of kN adjacent columns.
constexpr int kN = 4;                                // number of columns per pack
constexpr int kPacks = 2;                            // number of packs per thread
constexpr int kMostAdders = 128;                     // largest number of threads that sum rows
constexpr int kColumns = kMostAdders * kPacks * kN;  // largest number of columns per block
constexpr int kStages = 6;
// The largest number of rows of the table that a block sets to zero. If zeroing all rows of the table takes more blocks than there are
// pieces, additional blocks are launched, which sum no piece.
constexpr int kZeroRows = 32;

struct Ring {
  uint32_t rows;  // address of the rows in shared memory, an array [kStages][rows of a stage][row_bytes]
  // Addresses of two arrays of barriers, one barrier per stage: `full` is for rows that have arrived, and `empty` for rows that have been
  // read.
  uint32_t full;
  uint32_t empty;
  uint32_t row_bytes;

  template <int kRows>
  __device__ __forceinline__ uint32_t row(int stage, int r) const {
    return rows + static_cast<uint32_t>(stage * kRows + r) * row_bytes;
  }
};

// Starts copying `bytes` bytes of the gradient row of each token for which Pieces::wants() is true, from the column at `d_x` on.
template <typename X, int kRows>
__device__ __forceinline__ void copy_rows(const Pieces& a, const Ring& ring, const X* d_x, int64_t begin,
                                          int n, uint32_t bytes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int base = 0; base < n; base += 32) {
    const int2 pair = base + lane < n ? a.sorted.pairs[begin + base + lane] : make_int2(-1, 0);
    const unsigned wanted = __ballot_sync(kWholeWarp, a.wants(pair.x));
    for (int first = 0; first < 32 && base + first < n; first += kRows) {
      const int batch = (base + first) / kRows;
      const int stage = batch % kStages;
      tma::wait(ring.empty + 8 * stage, (batch / kStages + 1) % 2);
      if (lane >= first && lane < first + kRows && a.wants(pair.x)) {
        tma::load(ring.row<kRows>(stage, lane - first), d_x + static_cast<int64_t>(pair.y) * a.C, bytes,
                  ring.full + 8 * stage);
      }
      // The barrier learns the number of bytes only after the copies have been started. This is safe, because the phase of the barrier
      // cannot end before this thread arrives at it.
      __syncwarp();
      if (lane == 0) {
        const unsigned rows = wanted >> first & ((1u << kRows) - 1u);
        tma::arrive_and_expect(ring.full + 8 * stage, static_cast<uint32_t>(__popc(rows)) * bytes);
      }
    }
  }
}

// Writes zeros to those of the block's rows of the table that have no token. Before compute capability 9.0 this function and the constants
// below are unused, because the kernel is empty.
[[maybe_unused]] __device__ __forceinline__ void write_zeros(const Pieces& a, int64_t rows_of_block,
                                                             int64_t c0, int width) {
  if (a.add.get()) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * rows_of_block;
  const int64_t end = begin + rows_of_block < a.num_rows ? begin + rows_of_block : a.num_rows;
  constexpr float kZeros[kN] = {};
  for (int64_t first = begin; first < end; first += 32) {
    unsigned empty = __ballot_sync(kWholeWarp, first + lane < end && !a.has_token(first + lane));
    for (; empty != 0; empty &= empty - 1) {
      float* row = a.d_table + (first + __ffs(static_cast<int>(empty)) - 1) * a.C + c0;
      for (int c = lane * kN; c < width; c += 32 * kN) store_sum<kN>(row + c, kZeros);
    }
  }
}

// `ends` has one entry per token of a piece. For the last token of each id in the piece, the entry is the id; for all other tokens it is
// one of these values.
[[maybe_unused]] constexpr int32_t kSkip = -1;  // Pieces::wants() is false for this id
[[maybe_unused]] constexpr int32_t kAdd = -2;   // a later token of this piece has the same id

// Sums the gradient rows of a piece per id. `ends` marks the last token of each id.
template <typename X, int kRows>
__device__ __forceinline__ void add_rows(const Pieces& a, const Ring& ring, const unsigned char* rows,
                                         const int32_t* ends, int n, int64_t c0, int width, int adders) {
  const int64_t piece = blockIdx.x;
  const int64_t begin = piece * a.tokens;
  const int thread = static_cast<int>(threadIdx.x);
  const bool adds = a.add.get();
  const bool goes_on = begin + n < a.T && a.sorted.id(begin + n) == a.sorted.id(begin + n - 1);
  bool from_before = begin > 0 && a.sorted.id(begin - 1) == a.sorted.id(begin) && a.wants(a.sorted.id(begin));
  float sum[kPacks][kN] = {};
  for (int batch = 0; batch * kRows < n; ++batch) {
    const int stage = batch % kStages;
    tma::wait(ring.full + 8 * stage, batch / kStages % 2);
    // Every row of the stage is loaded from shared memory, so that the loads need no branches. Rows into which nothing was copied
    // (Pieces::wants() is false for their tokens) are not added.
    Raw<X, kN> raw[kRows][kPacks];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto* row =
          reinterpret_cast<const X*>(rows + static_cast<uint32_t>(stage * kRows + r) * ring.row_bytes);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int c = (j * adders + thread) * kN;
        raw[r][j] = load_raw<X, kN>(row + (c < width ? c : 0));
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = batch * kRows + r;
      const int32_t id = i < n ? ends[i] : kSkip;
      if (id == kSkip) continue;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        float terms[kN];
        unpack<X, kN>(raw[r][j], terms);
#pragma unroll
        for (int k = 0; k < kN; ++k) sum[j][k] += terms[k];
      }
      if (id == kAdd) continue;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int c = (j * adders + thread) * kN;
        if (c < width) a.finish_id<kN>(piece, id, from_before, goes_on && i + 1 == n, adds, c0 + c, sum[j]);
#pragma unroll
        for (int k = 0; k < kN; ++k) sum[j][k] = 0.0f;
      }
      from_before = false;
    }
    tma::arrive(ring.empty + 8 * stage);
  }
}

// Sums one piece per block. A block consists of the threads that sum rows, a warp that copies rows, and a warp that writes zeros; gridDim.y
// divides the columns.
template <typename X, int kRows>
__global__ void __launch_bounds__(kMostAdders + 64)
    add_copied_pieces_kernel(const __grid_constant__ Pieces a, const X* d_x, int64_t rows_of_block) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char rows[];
  __shared__ __align__(8) uint64_t barriers[2 * kStages];
  __shared__ int32_t ends[kMostCopiedTokens];
  const int thread = static_cast<int>(threadIdx.x);
  const int adders = static_cast<int>(blockDim.x) - 64;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const int width = static_cast<int>(a.C - c0 < kColumns ? a.C - c0 : kColumns);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * a.tokens;
  const int n = static_cast<int>(a.T - begin < a.tokens ? a.T - begin : a.tokens);
  const uint32_t barrier = tma::shared_address(barriers);
  const Ring ring{.rows = tma::shared_address(rows),
                  .full = barrier,
                  .empty = barrier + 8 * kStages,
                  .row_bytes = static_cast<uint32_t>((a.C < kColumns ? a.C : kColumns) * sizeof(X))};
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      tma::make_barrier(ring.full + 8 * stage, 1);
      tma::make_barrier(ring.empty + 8 * stage, static_cast<uint32_t>(adders));
    }
    tma::fence_barriers();
  }
  // Up to here the kernel has read no results of other kernels, so it may already run while the previous launch still does.
  wait_for_launch_before();
  let_next_launch_begin();
  __syncthreads();
  if (thread >= adders + 32) return write_zeros(a, rows_of_block, c0, width);
  if (n <= 0) return;
  if (thread >= adders) {
    return copy_rows<X, kRows>(a, ring, d_x + c0, begin, n, static_cast<uint32_t>(width * sizeof(X)));
  }
  for (int i = thread; i < n; i += adders) {
    const int32_t id = a.sorted.id(begin + i);
    const bool ends_here = i + 1 == n || a.sorted.id(begin + i + 1) != id;
    ends[i] = !a.wants(id) ? kSkip : ends_here ? id : kAdd;
  }
  asm volatile("bar.sync 1, %0;" ::"r"(adders) : "memory");  // synchronizes only the threads that sum rows
  add_rows<X, kRows>(a, ring, rows, ends, n, c0, width, adders);
#endif
}

}  // namespace

template <typename X>
void launch_copied_pieces(const Pieces& pieces, const X* d_x, CudaStream stream) {
  // The number of rows per stage. If a block sums kColumns columns, its ring buffer takes 48 KiB for every type of elements, so that four
  // blocks fit on a multiprocessor.
  constexpr int kRows = 8 / sizeof(X);
  const int64_t width = std::min<int64_t>(pieces.C, kColumns);
  const int64_t adders = ceil_div(width, kPacks * kN * 32) * 32;
  const int64_t blocks = std::max(pieces.count(), ceil_div(pieces.num_rows, kZeroRows));
  const int64_t ring_bytes = kStages * kRows * width * static_cast<int64_t>(sizeof(X));
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(ceil_div(pieces.C, kColumns)));
  PLIMSOLL_CUDA(cudaFuncSetAttribute(add_copied_pieces_kernel<X, kRows>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(ring_bytes)));
  launch_early(add_copied_pieces_kernel<X, kRows>,
               {grid, dim3(static_cast<unsigned>(adders + 64)), ring_bytes}, stream, pieces, d_x,
               ceil_div(pieces.num_rows, blocks));
}

template void launch_copied_pieces(const Pieces&, const float*, CudaStream);
template void launch_copied_pieces(const Pieces&, const __nv_bfloat16*, CudaStream);
template void launch_copied_pieces(const Pieces&, const __half*, CudaStream);

}  // namespace plimsoll::cuda
