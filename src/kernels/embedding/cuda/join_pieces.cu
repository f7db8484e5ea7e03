#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kWarps = 32;
constexpr int kAhead = 8;  // sums on their way at once

// Whether the sum of an id begins in this piece and goes on in the next, and of which.
__device__ __forceinline__ bool begins_in(const Pieces& a, int64_t piece, int32_t& id) {
  const int64_t begin = piece * a.tokens;
  const int64_t next = begin + a.tokens;
  if (next >= a.T) return false;
  id = a.sorted.id(next - 1);
  const int32_t before = begin > 0 ? a.sorted.id(begin - 1) : -1;
  return a.sorted.id(next) == id && before != id && a.wants(id);
}
__device__ __forceinline__ bool begins_with(const Pieces& a, int64_t piece, int32_t id) {
  const int64_t begin = piece * a.tokens;
  return begin < a.T && a.sorted.id(begin) == id;
}

// The sums of an id that begins in `piece`, every kStep-th of its `count` from `first` on, in order.
template <int N, int kStep>
__device__ __forceinline__ void add_sums(const Pieces& a, int64_t piece, int first, int count, int64_t c,
                                         float (&sum)[N]) {
  for (int base = first; base < count; base += kAhead * kStep) {
    // What lies beyond the last is loaded too, from the last: no branch keeps the loads apart.
    Raw<float, N> raw[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int k = base + u * kStep < count ? base + u * kStep : count - 1;
      raw[u] = load_raw<float, N>(a.partial(piece + k, k == 0 ? kLastSum : kFirstSum) + c);
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      float terms[N];
      unpack<float, N>(raw[u], terms);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += base + u * kStep < count ? terms[i] : 0.0f;
    }
  }
}

// blockDim = (32, kWarps). A warp looks after a piece, and adds up the id that begins there and goes on where
// that lies in 32 pieces or fewer. Of longer ones all warps take sums in turn, and theirs are added in order.
template <int N>
__global__ void __launch_bounds__(32 * kWarps) join_pieces_kernel(const __grid_constant__ Pieces a) {
  __shared__ int32_t long_ids[kWarps];
  __shared__ float shared[kWarps][N][32];
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t first_piece = static_cast<int64_t>(blockIdx.x) * kWarps;
  const int64_t c = (static_cast<int64_t>(blockIdx.y) * 32 + lane) * N;
  const bool inside = c < a.C;
  const bool adds = a.add.get();
  int32_t id = -1;
  const bool begins = begins_in(a, first_piece + warp, id);
  const unsigned more =
      __ballot_sync(kWholeWarp, begins && begins_with(a, first_piece + warp + 1 + lane, id));
  const bool is_long = more == kWholeWarp;
  if (begins && !is_long && inside) {
    float sum[N] = {};
    add_sums<N, 1>(a, first_piece + warp, 0, 1 + __popc(more), c, sum);
    a.write_row<N>(id, c, adds, sum);
  }
  if (lane == 0) long_ids[warp] = is_long ? id : -1;
  __syncthreads();
  for (int other = 0; other < kWarps; ++other) {
    const int32_t long_id = long_ids[other];
    if (long_id < 0) continue;
    const int64_t piece = first_piece + other;
    int count = 1;
    for (int found = 32 * kWarps; found == 32 * kWarps;) {
      found = __syncthreads_count(begins_with(a, piece + count + warp * 32 + lane, long_id));
      count += found;
    }
    float sum[N] = {};
    if (inside) add_sums<N, kWarps>(a, piece, warp, count, c, sum);
#pragma unroll
    for (int i = 0; i < N; ++i) shared[warp][i][lane] = sum[i];
    __syncthreads();
    if (warp == 0 && inside) {
#pragma unroll 8
      for (int w = 1; w < kWarps; ++w) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += shared[w][i][lane];
      }
      a.write_row<N>(long_id, c, adds, sum);
    }
    __syncthreads();
  }
}

template <int N>
void launch_join_of(const Pieces& pieces, CudaStream stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(pieces.count(), kWarps)),
                  static_cast<unsigned>(ceil_div(pieces.C, 32 * N)));
  join_pieces_kernel<N><<<grid, dim3(32, kWarps), 0, stream>>>(pieces);
  PLIMSOLL_CHECK_LAUNCH("join_pieces");
}

}  // namespace

void launch_join(const Pieces& pieces, bool packs, CudaStream stream) {
  // An id in two pieces needs two of them.
  if (pieces.count() < 2) return;
  if (packs) {
    launch_join_of<4>(pieces, stream);
  } else {
    launch_join_of<1>(pieces, stream);
  }
}

}  // namespace plimsoll::cuda
