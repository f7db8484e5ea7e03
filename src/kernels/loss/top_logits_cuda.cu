#include <cooperative_groups.h>

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/loss/cuda/row_exponentials.cuh"
#include "kernels/loss/top_logits.h"

namespace plimsoll {
namespace cuda {
namespace {

// A thread block selects the largest logits of one row, or of one of the equal parts into which a row is divided. Each thread keeps the
// kKept largest logits among the elements that it reads, in descending order. The block then takes the largest logit of all threads K
// times. A thread that has no kept logits left reads its elements again. The blocks of a divided row form a cluster, whose first block
// joins the lists and sums of all of them (CUDA C++ Programming Guide, "Distributed Shared Memory"). On an H200, one block takes 17 us for
// the 128256 logits of a row, because a single multiprocessor reads them, and a cluster takes 8 us.
inline constexpr int kTopThreads = 1024;
// A row of at least kDividedClasses classes is divided between the blocks of a cluster: eight blocks if the call has at most kDividedRows
// rows, four if it has at most twice as many. On an H200, selecting the 8 largest of 50257 logits takes 25.4 us undivided and 11.0 us
// divided by eight for 8 rows, but 25.5 us undivided and 32.3 us divided by eight for 32 rows. A division by four was measured only
// together with other changes.
inline constexpr int64_t kDividedClasses = 4 * kTopThreads;
inline constexpr int64_t kDividedRows = 16;

// A logit and its class as one number that can be compared: a larger logit gives a larger number, and of two equal logits the one with the
// smaller class does. The value kNothing means that there is no logit.
using Key = unsigned long long;
inline constexpr Key kNothing = 0;

__device__ __forceinline__ Key key_of(float value, uint32_t id) {
  const uint32_t bits = __float_as_uint(value == 0.0f ? 0.0f : value);  // makes -0 equal to 0
  const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<Key>(ordered) << 32 | static_cast<Key>(~id);
}
__device__ __forceinline__ float value_of(Key key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}
__device__ __forceinline__ int32_t id_of(Key key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}

// Returns the largest key of the lanes of a warp. A key is a logit and its class as one number.
__device__ __forceinline__ Key largest_of_warp(Key key) {
#if __CUDA_ARCH__ >= 800
  // Two warp reductions of 32 bits take a fifth of the time of a reduction by five exchanges of 64 bits.
  const auto high = static_cast<uint32_t>(key >> 32);
  const uint32_t highest = __reduce_max_sync(0xffffffffu, high);
  const uint32_t low = __reduce_max_sync(0xffffffffu, high == highest ? static_cast<uint32_t>(key) : 0u);
  return static_cast<Key>(highest) << 32 | low;
#else
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const Key other = __shfl_xor_sync(0xffffffffu, key, apart);
    key = other > key ? other : key;
  }
  return key;
#endif
}

struct TopRows {
  int64_t num_classes = 0;
  int k = 0;
  float* values = nullptr;
  int32_t* ids = nullptr;
  double* log_sums = nullptr;
};

// Inserts a logit into the logits that a thread keeps in descending order. `last` is the smallest of kKept kept logits, or -infinity if
// there are fewer. Most logits are below it, so that one comparison with it is enough for them. A NaN is not inserted.
template <int kKept>
__device__ __forceinline__ void keep(Key (&kept)[kKept], float& last, float value, uint32_t id) {
  // A logit that equals `last` is not inserted either, because its class is larger than that of the kept logit.
  if (!(value > last)) return;
  kept[kKept - 1] = key_of(value, id);
#pragma unroll
  for (int i = kKept - 1; i > 0; --i) {
    if (kept[i] > kept[i - 1]) {
      const Key larger = kept[i];
      kept[i] = kept[i - 1];
      kept[i - 1] = larger;
    }
  }
  last = kept[kKept - 1] == kNothing ? -INFINITY : value_of(kept[kKept - 1]);
}

// Reads the elements of a thread in batches. Calls on_batch(packs) for each batch, in which elements past the end of the row are -infinity,
// and body(value, class) for each logit.
template <typename T, int N, class OnBatch, class Body>
__device__ __forceinline__ void for_own_part(const T* x, int64_t num_classes, const OnBatch& on_batch,
                                             const Body& body) {
  for (uint32_t first = threadIdx.x * N; first < num_classes; first += kRowBatch * kTopThreads * N) {
    Raw<T, N> raw[kRowBatch];
    load_batch<T, N>(x, static_cast<uint32_t>(num_classes), first, raw);
    on_batch(raw);
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      const uint32_t id = first + static_cast<uint32_t>(u) * kTopThreads * N;
      if (id >= num_classes) continue;
      float values[N];
      unpack<T, N>(raw[u], values);
#pragma unroll
      for (int i = 0; i < N; ++i) body(values[i], id + i);
    }
  }
}

// Writes the i-th largest logit of a row and its class, or -infinity and 0 if there is none.
__device__ __forceinline__ void write_logit(const TopRows& a, int64_t row, int i, Key key) {
  a.values[row * a.k + i] = key == kNothing ? -INFINITY : value_of(key);
  a.ids[row * a.k + i] = key == kNothing ? 0 : id_of(key);
}
__device__ __forceinline__ void write_log_sum(const TopRows& a, int64_t row, const RowExponentials& all) {
  a.log_sums[row] = all.sum == 0.0 ? -INFINITY : static_cast<double>(all.reference) + log(all.sum);
}

#if __CUDA_ARCH__ >= 900
// Joins the results of all blocks of a cluster in its first block. `keys` and `own_sum` are the results of this block in shared memory: a.k
// logits in descending order, followed by kNothing if there are fewer, and the sum of exponentials. The place of a logit in the joined list
// is the number of logits that are larger.
template <int kBlocks>
__device__ void join_blocks(const TopRows& a, int64_t row, Key* keys, RowExponentials* own_sum) {
  __shared__ Key lists[kBlocks][kMaxTopLogits];
  __shared__ Key joined[kMaxTopLogits];
  const auto cluster = cooperative_groups::this_cluster();
  const int thread = static_cast<int>(threadIdx.x), all = kBlocks * a.k;
  cluster.sync();
  if (cluster.block_rank() == 0) {
    for (int i = thread; i < all; i += kTopThreads)
      lists[i / a.k][i % a.k] = cluster.map_shared_rank(keys, i / a.k)[i % a.k];
    if (thread < a.k) joined[thread] = kNothing;
    if (thread < 32) {
      RowExponentials sum;
      if (thread < kBlocks) sum = *cluster.map_shared_rank(own_sum, thread);
      sum.add_over_warp();
      if (thread == 0) write_log_sum(a, row, sum);
    }
    __syncthreads();
    for (int i = thread; i < all; i += kTopThreads) {
      const Key key = lists[i / a.k][i % a.k];
      if (key == kNothing) continue;
      int larger = 0;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        int begin = 0, end = a.k;
        while (begin < end) {
          const int middle = (begin + end) / 2;
          lists[block][middle] > key ? begin = middle + 1 : end = middle;
        }
        larger += begin;
      }
      if (larger < a.k) joined[larger] = key;
    }
    __syncthreads();
    if (thread < a.k) write_logit(a, row, thread, joined[thread]);
  }
  cluster.sync();  // Waits until the first block has read the shared memory of all blocks.
}
#endif

// The grid is [kBlocks, rows]. The blocks of a row form a cluster.
template <typename T, int N, int kKept, int kBlocks>
__global__ void __launch_bounds__(kTopThreads) top_logits_kernel(const T* logits, const TopRows a) {
  __shared__ RowExponentials sums[kTopThreads / 32];
  __shared__ Key winners[2][kTopThreads / 32];
  [[maybe_unused]] __shared__ Key block_keys[kMaxTopLogits];
  [[maybe_unused]] __shared__ RowExponentials block_sum[1];
  begin_early_launch();
  const int64_t row = blockIdx.y;
  int64_t first_class = 0, num_classes = a.num_classes;
  if constexpr (kBlocks > 1) {
    const int64_t size = (a.num_classes + kBlocks * N - 1) / (kBlocks * N) * N;
    first_class = min(a.num_classes, size * blockIdx.x);
    num_classes = min(size, a.num_classes - first_class);
  }
  const T* x = logits + row * a.num_classes + first_class;
  const auto offset = static_cast<uint32_t>(first_class);
  Key kept[kKept] = {};
  float last = -INFINITY;
  RowExponentials own_sum;
  for_own_part<T, N>(
      x, num_classes, [&](const Raw<T, N>(&raw)[kRowBatch]) { own_sum.add<T, N>(raw); },
      [&](float value, uint32_t id) { keep(kept, last, value, offset + id); });
  const RowExponentials all = over_block(own_sum, sums);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int used = 0;
  for (int i = 0; i < a.k; ++i) {
    Key best = kNothing;
#pragma unroll
    for (int j = 0; j < kKept; ++j) best = j == used ? kept[j] : best;
    const Key own = best;
    best = largest_of_warp(best);
    Key* slots = winners[i % 2];
    if (lane == 0) slots[warp] = best;
    __syncthreads();
    best = largest_of_warp(slots[lane]);
    if (threadIdx.x == 0) {
      if constexpr (kBlocks > 1) {
        block_keys[i] = best;
        if (i == 0) block_sum[0] = all;
      } else {
        write_logit(a, row, i, best);
        if (i == 0) write_log_sum(a, row, all);
      }
    }
    if (own != kNothing && own == best && ++used == kKept) {
      used = 0;
#pragma unroll
      for (int j = 0; j < kKept; ++j) kept[j] = kNothing;
      last = -INFINITY;
      for_own_part<T, N>(
          x, num_classes, [](const Raw<T, N>(&)[kRowBatch]) {},
          [&](float value, uint32_t id) {
            if (key_of(value, offset + id) < best) keep(kept, last, value, offset + id);
          });
    }
  }
#if __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) join_blocks<kBlocks>(a, row, block_keys, block_sum);
#endif
}

template <typename T, int N, int kKept>
void launch_top_logits(const T* logits, const TopRows& rows, int64_t num_rows, CudaStream stream) {
  const auto launch = [&](auto blocks) {
    constexpr int kBlocks = decltype(blocks)::value;
    launch_early(top_logits_kernel<T, N, kKept, kBlocks>,
                 {.grid = dim3(kBlocks, static_cast<unsigned>(num_rows)),
                  .block = dim3(kTopThreads),
                  .cluster = kBlocks},
                 stream, logits, rows);
  };
  const bool divided = num_rows <= 2 * kDividedRows && rows.num_classes >= kDividedClasses &&
                       device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
  if (!divided) return launch(std::integral_constant<int, 1>{});
  if (num_rows <= kDividedRows) return launch(std::integral_constant<int, 8>{});
  launch(std::integral_constant<int, 4>{});
}

}  // namespace
}  // namespace cuda

void top_logits_cuda(const TopLogitsArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "top_logits_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"logits", args.logits_BV}});
  PLIMSOLL_CHECK(args.k >= 1 && args.k <= kMaxTopLogits && args.num_classes >= args.k,
                 "{}: k must be 1 to {} and at most the number of logits, but is {} for {} logits", kKernel,
                 kMaxTopLogits, args.k, args.num_classes);
  PLIMSOLL_CHECK(args.num_rows <= 65535, "{} supports at most 65535 rows, not {}", kKernel, args.num_rows);
  if (args.num_rows <= 0) return;
  const cuda::TopRows rows{.num_classes = args.num_classes,
                           .k = static_cast<int>(args.k),
                           .values = args.values_BK.as<float>(),
                           .ids = args.ids_BK.as<int32_t>(),
                           .log_sums = args.log_sum_B.as<double>()};
  cuda::with_row_packs(dtype, args.num_classes, {args.logits_BV.data}, [&](auto type, auto n) {
    using T = decltype(type);
    constexpr int kN = decltype(n)::value;
    const auto* logits = static_cast<const T*>(args.logits_BV.data);
    if (args.k == 1) return cuda::launch_top_logits<T, kN, 1>(logits, rows, args.num_rows, stream);
    cuda::launch_top_logits<T, kN, 4>(logits, rows, args.num_rows, stream);
  });
}

}  // namespace plimsoll
