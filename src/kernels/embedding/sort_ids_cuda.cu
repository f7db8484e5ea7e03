#include "kernels/embedding/sort_ids.h"

#include <cooperative_groups.h>

#include <algorithm>
#include <bit>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll::cuda {
namespace {

// Sorts each list by a radix sort in one launch, by digits of 8 bits, the lowest first. The blocks that sort a list form a cluster, which
// has barriers and whose blocks can read each other's counts. Each block sorts a range of positions: it counts the tokens of each digit and
// then moves them, a tile of tokens at a time. Before compute capability 9.0 there are no clusters, and one block sorts a list.
constexpr int kBits = 8;
constexpr int kDigits = 1 << kBits;
constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 8;  // largest number of tokens that a thread handles in a tile
// The largest number of blocks of a cluster that every GPU with clusters supports.
constexpr int kMostBlocks = 8;
static_assert(kThreads >= kDigits);

struct List {
  const int32_t* ids;  // the ids of the tokens in their original order
  int2* halves[2];     // two arrays of (id, token) pairs to which the passes write in turn
};

struct Sort {
  List lists[kMaxEmbeddingTables];
  int64_t T;
  int32_t V;
  Integer num_tokens;
  int num_bits;       // number of bits of V, the largest key
  int rounds;         // number of tokens that a thread handles in a tile
  int64_t per_block;  // number of tokens per block, a multiple of the size of a tile
};

// The blocks that sort one list: a cluster, or a single block.
struct Cluster {
#if __CUDA_ARCH__ >= 900
  static __device__ __forceinline__ int rank() {
    return static_cast<int>(cooperative_groups::this_cluster().block_rank());
  }
  static __device__ __forceinline__ int size() {
    return static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  }
  // Waits for all threads of all blocks of the list. Afterwards every thread sees all earlier writes to any memory.
  static __device__ __forceinline__ void sync() {
    cooperative_groups::this_cluster().sync();
  }
  // If a single block sorts the list, it is not launched as a cluster. Its shared memory then has no cluster address and is read directly.
  static __device__ __forceinline__ int read(int* shared, int block) {
    return block == rank() ? *shared : *cooperative_groups::this_cluster().map_shared_rank(shared, block);
  }
#else
  static __device__ __forceinline__ int rank() {
    return 0;
  }
  static __device__ __forceinline__ int size() {
    return 1;
  }
  static __device__ __forceinline__ void sync() {
    __syncthreads();
  }
  static __device__ __forceinline__ int read(int* shared, int) {
    return *shared;
  }
#endif
};

// One pass of the radix sort: its source, its destination, and the digit by which it sorts.
struct Pass {
  const int2* from;  // null in the first pass, which reads the ids of the list instead
  int2* to;
  int shift;
  int32_t V;

  // Returns the digit of an id by which this pass sorts. kNoId counts as V, which is larger than every id.
  __device__ __forceinline__ int digit(int32_t id) const { return (min(id, V) >> shift) & (kDigits - 1); }
};

// The tokens that one thread handles in a tile, one per round. In each round, the tokens of the threads of a warp are adjacent.
struct Tile {
  int2 pairs[kRounds];
  int rank[kRounds];  // for each token, the number of earlier tokens of the warp with the same digit
  int64_t first;      // position of the token that the thread handles in the first round
  int64_t end;
  int rounds;

  __device__ __forceinline__ Tile(const Sort& a, int64_t begin, int64_t end_of_block)
      : first(begin + static_cast<int>(threadIdx.x) / 32 * (32 * a.rounds) +
              static_cast<int>(threadIdx.x) % 32),
        end(end_of_block),
        rounds(a.rounds) {}
  __device__ __forceinline__ bool has(int round) const { return round < rounds && first + round * 32 < end; }
  // Loads the thread's tokens. All loads are started before the first one is used.
  __device__ __forceinline__ void load(const int32_t* ids, const Pass& pass, int64_t num_tokens) {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int64_t i = first + round * 32;
      pairs[round] = make_int2(kNoId, static_cast<int32_t>(i));
      if (pass.from != nullptr) {
        if (has(round)) pairs[round] = pass.from[i];
      } else if (has(round) && i < num_tokens) {
        pairs[round].x = ids[i];
      }
    }
  }
  // Computes `rank` for each token of the thread, and writes to `counts` how many tokens of the warp have each digit.
  __device__ __forceinline__ void count(const Pass& pass, int* counts) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int digit = lane; digit < kDigits; digit += 32) counts[digit] = 0;
    unsigned equal[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int digit = pass.digit(pairs[round].x);
      equal[round] = __ballot_sync(kWholeWarp, has(round));
#pragma unroll
      for (int bit = 0; bit < kBits; ++bit) {
        const bool is_set = (digit >> bit & 1) != 0;
        equal[round] &= __ballot_sync(kWholeWarp, is_set) ^ (is_set ? 0u : kWholeWarp);
      }
    }
    __syncwarp();
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int digit = pass.digit(pairs[round].x);
      const unsigned lower = equal[round] & ((1u << lane) - 1u);
      const int before = counts[digit];
      rank[round] = before + __popc(lower);
      __syncwarp();
      if (has(round) && lower == 0) counts[digit] = before + __popc(equal[round]);
      __syncwarp();
    }
  }
  // Moves the tokens to their destinations. `next` contains, for each digit, the destination of the warp's first token with this digit.
  __device__ __forceinline__ void move(const Pass& pass, const int* next) const {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      if (!has(round)) continue;
      pass.to[next[pass.digit(pairs[round].x)] + rank[round]] = pairs[round];
    }
  }
};

// Returns to each of the first kDigits threads the sum of `value` over the threads before it. Requires: all threads call it.
__device__ __forceinline__ int exclusive_sum(int value, int* warp_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_up_sync(kWholeWarp, sum, distance);
    if (lane >= distance) sum += below;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  if (warp >= kDigits / 32) return 0;
  for (int other = 0; other < warp; ++other) sum += warp_sums[other];
  return sum - value;
}

// Returns to thread d, for d < kDigits, the destination of the block's first token with digit d: it follows all tokens with lower digits,
// and the tokens with digit d of earlier blocks. `total` contains the number of tokens of this block with each digit. Requires: every block
// has written its counts.
__device__ __forceinline__ int first_place(int* total, int* warp_sums) {
  const int thread = static_cast<int>(threadIdx.x);
  int all = 0, before = 0;
  if (thread < kDigits) {
#pragma unroll
    for (int block = 0; block < kMostBlocks; ++block) {
      const int count = block < Cluster::size() ? Cluster::read(&total[thread], block) : 0;
      all += count;
      if (block < Cluster::rank()) before += count;
    }
  }
  return exclusive_sum(all, warp_sums) + before;
}

__global__ void __launch_bounds__(kThreads) sort_ids_kernel(const __grid_constant__ Sort a) {
  __shared__ int total[kDigits], of_warp[kWarps][kDigits], warp_sums[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int64_t num_tokens = a.num_tokens.get();
  const int64_t begin = Cluster::rank() * a.per_block;
  const int64_t end = begin + a.per_block < a.T ? begin + a.per_block : a.T;
  const int64_t tile_tokens = int64_t{kThreads} * a.rounds;
  // If all tokens of a block form a single tile, they stay in registers between counting and moving. Otherwise they are loaded twice.
  const bool one_tile = a.per_block <= tile_tokens;
  const List& list = a.lists[blockIdx.y];
  Pass pass{.from = nullptr, .to = nullptr, .shift = 0, .V = a.V};
  for (int pass_index = 0; pass.shift < a.num_bits; ++pass_index) {
    pass.to = list.halves[pass_index % 2];
    Tile tile(a, begin, end);
    int mine = 0;
    for (int64_t at = begin; at < end; at += tile_tokens) {
      tile = Tile(a, at, end);
      tile.load(list.ids, pass, num_tokens);
      tile.count(pass, of_warp[warp]);
      __syncthreads();
      if (thread < kDigits) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) mine += of_warp[w][thread];
      }
      if (!one_tile) __syncthreads();
    }
    if (thread < kDigits) total[thread] = mine;
    Cluster::sync();
    int next = first_place(total, warp_sums);
    for (int64_t at = begin; at < end; at += tile_tokens) {
      if (!one_tile) {
        tile = Tile(a, at, end);
        tile.load(list.ids, pass, num_tokens);
        tile.count(pass, of_warp[warp]);
        __syncthreads();
      }
      if (thread < kDigits) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const int count = of_warp[w][thread];
          of_warp[w][thread] = next;
          next += count;
        }
      }
      __syncthreads();
      tile.move(pass, of_warp[warp]);
      if (!one_tile) __syncthreads();
    }
    Cluster::sync();
    pass.from = pass.to;
    pass.shift += kBits;
  }
}

void launch_sort(Sort sort, int num_lists, CudaStream stream) {
  const bool has_clusters = device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
  const int64_t blocks = has_clusters ? std::min<int64_t>(ceil_div(sort.T, kThreads), kMostBlocks) : 1;
  const int64_t rounds = std::min<int64_t>(ceil_div(sort.T, blocks * kThreads), kRounds);
  const int64_t tile = rounds * kThreads;
  sort.rounds = static_cast<int>(rounds);
  sort.per_block = ceil_div(sort.T, blocks * tile) * tile;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(num_lists));
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  PLIMSOLL_CUDA(cudaLaunchKernelEx(&config, sort_ids_kernel, sort));
}

}  // namespace
}  // namespace plimsoll::cuda

namespace plimsoll {

void sort_ids_cuda(const SortIdsArgs& args, const int32_t* num_tokens, CudaStream stream) {
  constexpr const char* kKernel = "sort_ids_cuda";
  check_sort_ids(kKernel, args);
  PLIMSOLL_CHECK(static_cast<bool>(args.scratch), "{} needs scratch memory, but has none", kKernel);
  if (args.T <= 0) return;
  cuda::Sort sort{.lists = {},
                  .T = args.T,
                  .V = narrow<int32_t>(args.V),
                  .num_tokens = {num_tokens, false, args.num_tokens},
                  .num_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(args.V))),
                  .rounds = 0,
                  .per_block = 0};
  // Chooses the arrays of the passes such that the last pass writes to the result.
  const int passes = (sort.num_bits + cuda::kBits - 1) / cuda::kBits;
  for (int k = 0; k < args.num_lists; ++k) {
    const auto index = static_cast<size_t>(k);
    auto* sorted = static_cast<int2*>(args.sorted[index].data);
    auto* scratch = static_cast<int2*>(args.scratch.data) + k * args.T;
    sort.lists[k] = {.ids = args.ids[index].as<int32_t>(), .halves = {scratch, scratch}};
    sort.lists[k].halves[(passes - 1) % 2] = sorted;
  }
  cuda::launch_sort(sort, args.num_lists, stream);
}

}  // namespace plimsoll
