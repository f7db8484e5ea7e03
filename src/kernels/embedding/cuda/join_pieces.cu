#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kAhead = 8;  // number of sums that a lane loads before it adds the first one

// An id whose tokens are in several pieces; its run is the range of its tokens in the sorted order. The run extends over the piece of this
// block, `before` pieces before it and `after` pieces after it.
struct Run {
  int32_t id;
  int64_t before, after;
};

// Returns the number of pieces before (or after) the piece of this block into which the run of tokens with this id extends. The run extends
// into the next piece if the tokens on both sides of the boundary have the id. A warp tests 32 boundaries at once.
template <int kDirection>
__device__ __forceinline__ int64_t count_boundaries(const Pieces& a, int64_t piece, int32_t id) {
  const int64_t lane = static_cast<int64_t>(threadIdx.x) % 32;
  const auto is_within = [&](int64_t far) {
    return a.sorted.id(kDirection < 0 ? (piece - far) * a.tokens - 1 : (piece + 1 + far) * a.tokens) == id;
  };
  // Invariant of the search: all boundaries before number `low` are inside the run, and boundary number `high` is not.
  int64_t low = 0, high = kDirection < 0 ? piece : a.count() - 1 - piece;
  while (low < high) {
    const int64_t step = ceil_div(high - low, 32);
    const int64_t far = low + (lane + 1) * step - 1;
    const int within = __popc(__ballot_sync(kWholeWarp, far < high && is_within(far)));
    const int64_t beyond = low + (within + 1) * step - 1;
    low += within * step;
    high = beyond < high ? beyond : high;
  }
  return low;
}

// Adds the sums of an id over all pieces that contain its tokens. The blocks of these pieces each handle a part of the columns, so with
// more pieces a warp handles fewer columns. Lanes that handle the same columns divide the pieces among them, and their results are then
// added pairwise. If there are few pieces, each lane loads more packs of columns at once.
template <int N, int kPacks>
__device__ __forceinline__ void join(const Pieces& a, int64_t piece, const Run& run, bool adds) {
  constexpr int kSums = kAhead / kPacks;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto count = static_cast<int>(run.before + 1 + run.after);
  // The number of packs (N adjacent columns) that this block handles. The blocks of all pieces with tokens of the id divide the packs.
  const int share = (static_cast<int>(ceil_div(a.C, N)) + count - 1) / count;
  int width = 1;  // number of adjacent lanes that handle different columns
  while (width < share && width < 32) width *= 2;
  const int turns = 32 / width;
  const int64_t first_piece = piece - run.before;
  for (int base = lane % width; base - lane % width < share; base += kPacks * width) {
    float sum[kPacks][N] = {};
    int64_t c[kPacks];
    bool inside[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      c[p] = (run.before * share + base + p * width) * N;
      inside[p] = base + p * width < share && c[p] < a.C;
    }
    for (int first = lane / width; first < count; first += kSums * turns) {
      // An index past the last sum is replaced by that of the last sum, which is loaded but not added, so that the loads need no branches.
      Raw<float, N> raw[kPacks][kSums];
#pragma unroll
      for (int u = 0; u < kSums; ++u) {
        const int k = first + u * turns < count ? first + u * turns : count - 1;
        const float* from = a.partial(first_piece + k, k == 0 ? kLastSum : kFirstSum);
#pragma unroll
        for (int p = 0; p < kPacks; ++p) raw[p][u] = load_raw<float, N>(from + (inside[p] ? c[p] : 0));
      }
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int u = 0; u < kSums; ++u) {
          float terms[N];
          unpack<float, N>(raw[p][u], terms);
#pragma unroll
          for (int i = 0; i < N; ++i) sum[p][i] += first + u * turns < count ? terms[i] : 0.0f;
        }
      }
    }
    for (int distance = 16; distance >= width; distance /= 2) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[p][i] += __shfl_xor_sync(kWholeWarp, sum[p][i], distance);
      }
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (inside[p] && lane < width) a.write_row<N>(run.id, c[p], adds, sum[p]);
    }
  }
}

// Runs one block per piece. One warp handles the first id of the piece, and the other warp its last id if that is a different one. The
// blocks are small so that they fit on multiprocessors that still run blocks of the first launch. This launch may start early: until the
// blocks of the first launch have finished, it reads only data that was written before that launch.
template <int N>
__global__ void __launch_bounds__(64) join_pieces_kernel(const __grid_constant__ Pieces a) {
  const int64_t piece = blockIdx.x;
  const int64_t begin = piece * a.tokens;
  const int64_t end = begin + a.tokens < a.T ? begin + a.tokens : a.T;
  const int32_t first = a.sorted.id(begin), last = a.sorted.id(end - 1);
  const bool is_first = threadIdx.x < 32, is_one = first == last;
  Run run{.id = is_first ? first : last, .before = 0, .after = 0};
  const bool mine = a.wants(run.id) && (is_first || !is_one);
  if (mine && is_first) run.before = count_boundaries<-1>(a, piece, first);
  if (mine && (!is_first || is_one)) run.after = count_boundaries<1>(a, piece, last);
  const bool adds = a.add.get();
  wait_for_launch_before();
  const int64_t count = run.before + 1 + run.after;
  if (count == 1) return;
  if (count == 2) return join<N, 4>(a, piece, run, adds);
  if (count <= 4) return join<N, 2>(a, piece, run, adds);
  join<N, 1>(a, piece, run, adds);
}

}  // namespace

void launch_join(const Pieces& pieces, bool packs, CudaStream stream) {
  // With a single piece there is nothing to join.
  if (pieces.count() < 2) return;
  launch_early(packs ? join_pieces_kernel<4> : join_pieces_kernel<1>,
               {dim3(static_cast<unsigned>(pieces.count())), dim3(64)}, stream, pieces);
}

}  // namespace plimsoll::cuda
