#include <cooperative_groups.h>

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/loss/cuda/row_exponentials.cuh"
#include "kernels/loss/top_logits.h"

namespace plimsoll {
namespace cuda {
namespace {

// A thread block selects the k largest logits of one row, or of one of the equal parts into which a row is divided. First, each thread
// finds the largest logit among those that it reads. Then the block finds a bound that the largest logits of at least k threads reach, so
// the k largest logits of the block reach it too. Few others do. The threads whose largest logit reaches the bound read their logits again
// and append those that reach it to a list, which the block sorts. The blocks of a divided row form a cluster, whose first block joins the
// lists and sums of all of them (CUDA C++ Programming Guide, "Distributed Shared Memory").
inline constexpr int kTopThreads = 512;
// A row of at least kDividedClasses classes is divided between the blocks of a cluster: eight blocks if the call has at most kRowsOfEight
// rows, four if it has at most kRowsOfFour.
inline constexpr int64_t kDividedClasses = 4096;
inline constexpr int64_t kRowsOfEight = 16, kRowsOfFour = 128;
// The largest number of logits in the list of a block.
inline constexpr int kMostListed = 1024;

// A logit and its class as one number that can be compared: a larger logit gives a larger number, and of two equal logits the one with the
// smaller class gives the larger number. The value kNothing means that there is no logit.
using Key = unsigned long long;
inline constexpr Key kNothing = 0;

// Returns a number that is larger for a larger logit. Requires: the logit is not NaN.
__device__ __forceinline__ uint32_t order_of(float value) {
  const uint32_t bits = __float_as_uint(value == 0.0f ? 0.0f : value);  // makes -0 equal to 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ Key key_of(float value, uint32_t id) {
  return static_cast<Key>(order_of(value)) << 32 | static_cast<Key>(~id);
}
__device__ __forceinline__ float value_of(Key key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}
__device__ __forceinline__ int32_t id_of(Key key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}

struct TopRows {
  int64_t num_classes = 0;
  int k = 0;
  float* values = nullptr;
  int32_t* ids = nullptr;
  double* log_sums = nullptr;
};

// The part of a row that a block reads: the elements first to end - 1 after an address that is a multiple of 16 bytes. A row of an odd
// number of 16-bit logits begins at no such multiple, so `first` is not always 0. `class_offset` plus the index of an element is its class.
template <typename T>
struct RowPart {
  const T* begin;
  uint32_t first, end;
  uint32_t class_offset;
};
template <typename T>
__device__ __forceinline__ RowPart<T> row_part(const T* row, int64_t first_class, int64_t num_classes) {
  const T* x = row + first_class;
  const auto before = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
  return {x - before, before, before + static_cast<uint32_t>(num_classes),
          static_cast<uint32_t>(first_class) - before};
}

// Loads the pack of elements that begins at index `at`. Elements that do not belong to the part are -infinity and are not read.
template <typename T>
__device__ __forceinline__ Raw<T, kPack<T>> load_pack(const RowPart<T>& part, uint32_t at) {
  constexpr int kN = kPack<T>;
  if (at >= part.first && at + kN <= part.end) return load_raw<T, kN>(part.begin + at);
  float values[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const uint32_t index = at + static_cast<uint32_t>(i);
    values[i] = -INFINITY;
    if (index >= part.first && index < part.end) {
      float value[1];
      load_floats<T, 1>(part.begin + index, value);
      values[i] = value[0];
    }
  }
  return pack<T, kN>(values);
}

// Reads the elements of a thread in batches and calls body(packs, index of the first element) for each batch. The packs of a batch are
// kTopThreads packs apart. Elements that do not belong to the part are -infinity.
template <typename T, class Body>
__device__ __forceinline__ void for_batches(const RowPart<T>& part, const Body& body) {
  constexpr int kN = kPack<T>;
  for (uint32_t first = threadIdx.x * kN; first < part.end; first += kRowBatch * kTopThreads * kN) {
    Raw<T, kN> raw[kRowBatch];
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u)
      raw[u] = load_pack(part, first + static_cast<uint32_t>(u) * kTopThreads * kN);
    body(raw, first);
  }
}
// Calls body(key) for each logit of a thread that can be selected, which -infinity and NaN cannot.
template <typename T, class Body>
__device__ __forceinline__ void for_keys(const RowPart<T>& part, const Body& body) {
  constexpr int kN = kPack<T>;
  for_batches(part, [&](const Raw<T, kN>(&raw)[kRowBatch], uint32_t first) {
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      float values[kN];
      unpack<T, kN>(raw[u], values);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        if (values[i] > -INFINITY)
          body(
              key_of(values[i], part.class_offset + first + static_cast<uint32_t>(u * kTopThreads * kN + i)));
      }
    }
  });
}

__device__ __forceinline__ uint32_t max_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kWholeWarp, value);
#else
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) value = max(value, __shfl_xor_sync(kWholeWarp, value, apart));
  return value;
#endif
}

// Returns a number that the orders (order_of) of at least k threads of the block reach, or 0 if there are fewer than k other than 0. Only
// its upper 16 bits differ from 0: a smaller bound is correct too, and the orders of bf16 logits differ in these bits only.
__device__ __forceinline__ uint32_t bound_of_block(uint32_t own, int k) {
  uint32_t bound = 0;
  for (int bit = 31; bit >= 16; --bit) {
    const uint32_t higher = bound | 1u << bit;
    const int reach_it = __syncthreads_count(own >= higher);
    if (reach_it >= k) bound = higher;
    if (reach_it == k) break;
  }
  return bound;
}
// Returns the k-th largest key of this block's part of the row. If the part has fewer than k keys, it returns 1, which no key is below, so
// that all of them are selected. The result is determined bit by bit, and the part is read once for each of the 64 bits of a key. `count` is
// in shared memory.
template <typename T>
__device__ __noinline__ Key key_of_rank(const RowPart<T>& part, int k, int* count) {
  Key bound = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Key higher = bound | Key{1} << bit;
    int own = 0;
    for_keys(part, [&](Key key) { own += key >= higher ? 1 : 0; });
    if (threadIdx.x == 0) *count = 0;
    __syncthreads();
    if (own > 0) atomicAdd(count, own);
    __syncthreads();
    if (*count >= k) bound = higher;
    __syncthreads();
  }
  return bound == 0 ? Key{1} : bound;
}

// The shared memory of a block.
struct TopShared {
  RowExponentials warp_sums[kTopThreads / 32];
  uint32_t warp_orders[kTopThreads / 32];
  Key listed[kMostListed];
  int num_listed;
  Key keys
      [kMaxTopLogits];  // the result: the largest keys in descending order, and kNothing if there are fewer than k
  RowExponentials sum;  // the result: the sum of exponentials
};

// Appends the keys that are at least `bound` to the list and returns their number, which may exceed kMostListed; the list then contains
// kMostListed of them.
template <typename T>
__device__ __noinline__ int list_keys(const RowPart<T>& part, Key bound, bool has_any, TopShared& shared) {
  if (threadIdx.x == 0) shared.num_listed = 0;
  __syncthreads();
  if (has_any) {
    for_keys(part, [&](Key key) {
      if (key < bound) return;
      const int place = atomicAdd(&shared.num_listed, 1);
      if (place < kMostListed) shared.listed[place] = key;
    });
  }
  __syncthreads();
  return shared.num_listed;
}

// Writes the k largest keys of a part to shared.keys. `own` is the order of the thread's largest logit, or 0 if it has none.
template <typename T>
__device__ __forceinline__ void select_keys(const RowPart<T>& part, uint32_t own, int k, TopShared& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < k) shared.keys[thread] = kNothing;
  const uint32_t bound = bound_of_block(own, k);
  int num_listed = list_keys(part, static_cast<Key>(bound) << 32, own >= bound && own > 0, shared);
  if (num_listed > kMostListed) {  // many logits are equal or nearly equal
    const Key smallest = key_of_rank(part, k, &shared.num_listed);
    num_listed = list_keys(part, smallest, true, shared);
  }
  for (int i = thread; i < num_listed; i += kTopThreads) {
    const Key key = shared.listed[i];
    int place = 0;
    for (int j = 0; j < num_listed; ++j) place += shared.listed[j] > key ? 1 : 0;
    if (place < k) shared.keys[place] = key;
  }
}

// Writes the largest key of a part to shared.keys[0]. Only threads whose largest logit is that of the block read their logits again, to
// find the smallest class.
template <typename T>
__device__ __forceinline__ void select_key(const RowPart<T>& part, uint32_t own, TopShared& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t of_warp = max_of_warp(own);
  if (thread % 32 == 0) shared.warp_orders[thread / 32] = of_warp;
  if (thread == 0) shared.keys[0] = kNothing;
  __syncthreads();
  const uint32_t largest = max_of_warp(thread % 32 < kTopThreads / 32 ? shared.warp_orders[thread % 32] : 0);
  if (own != largest || own == 0) return;
  Key best = kNothing;
  for_keys(part, [&](Key key) { best = key > best ? key : best; });
  atomicMax(&shared.keys[0], best);
}

// Selects the largest keys of a part and sums its exponentials. kSingle: k is 1.
template <bool kSingle, typename T>
__device__ __forceinline__ void select_logits(const RowPart<T>& part, int k, TopShared& shared) {
  constexpr int kN = kPack<T>;
  float greatest = -INFINITY;
  RowExponentials own_sum;
  for_batches(part, [&](const Raw<T, kN>(&raw)[kRowBatch], uint32_t) {
    greatest = fmaxf(greatest, greatest_of<T, kN>(raw));
    own_sum.add<T, kN>(raw);
  });
  // greatest_of() returns -FLT_MAX if a batch contains nothing larger, so `greatest` is never less than the largest selectable logit of
  // the thread.
  const uint32_t own = greatest == -INFINITY ? 0 : order_of(greatest);
  if constexpr (kSingle) {
    select_key(part, own, shared);
  } else {
    select_keys(part, own, k, shared);
  }
  const RowExponentials all = over_block(own_sum, shared.warp_sums);
  if (threadIdx.x == 0) shared.sum = all;
  __syncthreads();
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

#if __CUDA_ARCH__ >= 900
// The same if k is 1, by one warp.
template <int kBlocks>
__device__ void join_single(const TopRows& a, int64_t row, TopShared& shared) {
  const auto cluster = cooperative_groups::this_cluster();
  const int thread = static_cast<int>(threadIdx.x);
  cluster.sync();
  if (cluster.block_rank() == 0 && thread < 32) {
    Key best = kNothing;
    RowExponentials sum;
    if (thread < kBlocks) {
      best = *cluster.map_shared_rank(&shared.keys[0], thread);
      sum = *cluster.map_shared_rank(&shared.sum, thread);
    }
    sum.add_over_warp();
#pragma unroll
    for (int apart = kBlocks / 2; apart > 0; apart /= 2) {
      const Key other = __shfl_xor_sync(kWholeWarp, best, apart);
      best = other > best ? other : best;
    }
    if (thread == 0) {
      write_logit(a, row, 0, best);
      write_log_sum(a, row, sum);
    }
  }
  cluster.sync();  // Waits until the first block has read the shared memory of all blocks.
}
#endif

// The grid is [kBlocks, rows]. The blocks of a row form a cluster.
template <typename T, int kBlocks, bool kSingle>
__global__ void __launch_bounds__(kTopThreads) top_logits_kernel(const T* logits, const TopRows a) {
  __shared__ TopShared shared;
  begin_early_launch();
  const int64_t row = blockIdx.y;
  int64_t first_class = 0, num_classes = a.num_classes;
  if constexpr (kBlocks > 1) {
    const int64_t size = (a.num_classes + kBlocks - 1) / kBlocks;
    first_class = min(a.num_classes, size * blockIdx.x);
    num_classes = min(size, a.num_classes - first_class);
  }
  select_logits<kSingle>(row_part(logits + row * a.num_classes, first_class, num_classes), a.k, shared);
  if constexpr (kBlocks > 1) {
#if __CUDA_ARCH__ >= 900
    if constexpr (kSingle) {
      join_single<kBlocks>(a, row, shared);
    } else {
      join_blocks<kBlocks>(a, row, shared.keys, &shared.sum);
    }
#endif
  } else {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < a.k) write_logit(a, row, thread, shared.keys[thread]);
    if (thread == 0) write_log_sum(a, row, shared.sum);
  }
}

template <typename T, bool kSingle>
void launch_top_logits(const T* logits, const TopRows& rows, int64_t num_rows, CudaStream stream) {
  const auto launch = [&](auto blocks) {
    constexpr int kBlocks = decltype(blocks)::value;
    launch_early(top_logits_kernel<T, kBlocks, kSingle>,
                 {.grid = dim3(kBlocks, static_cast<unsigned>(num_rows)),
                  .block = dim3(kTopThreads),
                  .cluster = kBlocks},
                 stream, logits, rows);
  };
  const bool divided = num_rows <= kRowsOfFour && rows.num_classes >= kDividedClasses &&
                       device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
  if (!divided) return launch(std::integral_constant<int, 1>{});
  if (num_rows <= kRowsOfEight) return launch(std::integral_constant<int, 8>{});
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
  cuda::with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    const auto* logits = static_cast<const T*>(args.logits_BV.data);
    if (args.k == 1) return cuda::launch_top_logits<T, true>(logits, rows, args.num_rows, stream);
    cuda::launch_top_logits<T, false>(logits, rows, args.num_rows, stream);
  });
}

}  // namespace plimsoll
