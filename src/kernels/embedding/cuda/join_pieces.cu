#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/embedding/cuda/pieces.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAhead = 8;  // sums on their way at once

// An id whose tokens lie in several pieces: `before` of them before the block's, `after` behind it.
struct Run {
  int32_t id;
  int64_t before, after;
};

// How many boundaries of pieces in a row, from the block's own on and away from it, lie within the run of an
// id. A search by a warp, 32 places at once.
template <int kDirection>
__device__ __forceinline__ int64_t count_boundaries(const Pieces& a, int64_t piece, int32_t id) {
  const int64_t lane = static_cast<int64_t>(threadIdx.x) % 32;
  const auto is_within = [&](int64_t far) {
    return a.sorted.id(kDirection < 0 ? (piece - far) * a.tokens - 1 : (piece + 1 + far) * a.tokens) == id;
  };
  // Those before `low` lie within, the one at `high` does not.
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

// The pieces of a run share its columns, so that the more sums there are the fewer columns a block has.
// Within a block, threads that have the same columns take sums in turn, and theirs are added by halves.
template <int N>
__device__ __forceinline__ void join(const Pieces& a, int64_t piece, const Run& run,
                                     float (&shared)[N][kThreads]) {
  const int64_t count = run.before + 1 + run.after;
  if (count == 1 || !a.wants(run.id)) return;
  const bool adds = a.add.get();
  const int64_t share = ceil_div(ceil_div(a.C, N), count);  // packs
  const int thread = static_cast<int>(threadIdx.x);
  int width = 1;  // threads beside each other
  while (width < share && width < kThreads) width *= 2;
  const int turns = kThreads / width;
  const int64_t first_piece = piece - run.before;
  for (int64_t base = 0; base < share; base += width) {
    const int64_t in_share = base + thread % width;
    const int64_t c = (run.before * share + in_share) * N;
    const bool inside = in_share < share && c < a.C;
    float sum[N] = {};
    for (int64_t first = thread / width; inside && first < count; first += kAhead * turns) {
      // What lies beyond the last is loaded too, from the last: no branch keeps the loads apart.
      Raw<float, N> raw[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int64_t k = first + u * turns < count ? first + u * turns : count - 1;
        raw[u] = load_raw<float, N>(a.partial(first_piece + k, k == 0 ? kLastSum : kFirstSum) + c);
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        float terms[N];
        unpack<float, N>(raw[u], terms);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += first + u * turns < count ? terms[i] : 0.0f;
      }
    }
    for (int half = turns / 2; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < N; ++i) shared[i][thread] = sum[i];
      __syncthreads();
      if (thread < half * width) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += shared[i][thread + half * width];
      }
      __syncthreads();
    }
    if (inside && thread < width) a.write_row<N>(run.id, c, adds, sum);
  }
}

// A block for each piece. Until it knows what to join it reads only what lay there before the pieces' launch.
template <int N>
__global__ void __launch_bounds__(kThreads) join_pieces_kernel(const __grid_constant__ Pieces a) {
  __shared__ float shared[N][kThreads];
  const int64_t piece = blockIdx.x;
  const int64_t begin = piece * a.tokens;
  const int64_t end = begin + a.tokens < a.T ? begin + a.tokens : a.T;
  const int32_t first = a.sorted.id(begin), last = a.sorted.id(end - 1);
  __shared__ int64_t counts[2];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp == 0) counts[0] = count_boundaries<-1>(a, piece, first);
  if (warp == 1) counts[1] = count_boundaries<1>(a, piece, last);
  __syncthreads();
  const int64_t before = counts[0], after = counts[1];
  wait_for_pieces();
  if (first == last) return join<N>(a, piece, {first, before, after}, shared);
  join<N>(a, piece, {first, before, 0}, shared);
  __syncthreads();
  join<N>(a, piece, {last, 0, after}, shared);
}

template <int N>
void launch_join_of(const Pieces& pieces, CudaStream stream) {
  // Its blocks may come beside the last of those that add up pieces.
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(pieces.count());
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9 ? 1 : 0;
  PLIMSOLL_CUDA(cudaLaunchKernelEx(&config, join_pieces_kernel<N>, pieces));
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
