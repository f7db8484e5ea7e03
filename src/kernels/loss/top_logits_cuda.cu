#include "kernels/loss/cuda/row_exponentials.cuh"
#include "kernels/loss/top_logits.h"

namespace plimsoll {
namespace cuda {
namespace {

// A block selects the largest logits of one row. Each thread keeps, in order, the kKept largest logits of the elements that it reads; the
// block then takes the largest of all threads' logits K times. A thread whose kept logits are used up reads its elements again.
inline constexpr int kTopThreads = 1024;

// A logit and its class as one number, such that a larger logit gives a larger number and, of two equal logits, the one with the smaller
// class does. kNothing means no logit.
using Key = unsigned long long;
inline constexpr Key kNothing = 0;

__device__ __forceinline__ Key key_of(float value, uint32_t id) {
  const uint32_t bits = __float_as_uint(value == 0.0f ? 0.0f : value);  // -0 equals 0
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

struct TopRows {
  int64_t num_classes = 0;
  int k = 0;
  float* values = nullptr;
  int32_t* ids = nullptr;
  double* log_sums = nullptr;
};

// Inserts a logit into a thread's kept logits, which are in descending order. Most logits are below the last of these, which is found by
// one comparison. A NaN is not inserted.
template <int kKept>
__device__ __forceinline__ void keep(Key (&kept)[kKept], float& last, float value, uint32_t id) {
  if (!(value > last)) return;  // drops equal logits too, because their classes are larger
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

// Calls on_batch(packs) for each batch of packs that a thread reads, in which missing logits are -infinity, and body(value, class) for each
// logit.
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

template <typename T, int N, int kKept>
__global__ void __launch_bounds__(kTopThreads) top_logits_kernel(const T* logits, const TopRows a) {
  __shared__ RowExponentials sums[kTopThreads / 32];
  __shared__ Key winners[2][kTopThreads / 32];
  const int64_t row = blockIdx.x;
  const T* x = logits + row * a.num_classes;
  Key kept[kKept] = {};
  float last = -INFINITY;
  RowExponentials own_sum;
  for_own_part<T, N>(
      x, a.num_classes, [&](const Raw<T, N>(&raw)[kRowBatch]) { own_sum.add<T, N>(raw); },
      [&](float value, uint32_t id) { keep(kept, last, value, id); });
  const RowExponentials all = over_block(own_sum, sums);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int used = 0;
  for (int i = 0; i < a.k; ++i) {
    Key best = kNothing;
#pragma unroll
    for (int j = 0; j < kKept; ++j) best = j == used ? kept[j] : best;
    const Key own = best;
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const Key other = __shfl_xor_sync(0xffffffffu, best, apart);
      best = other > best ? other : best;
    }
    Key* slots = winners[i % 2];
    if (lane == 0) slots[warp] = best;
    __syncthreads();
    best = slots[lane];
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const Key other = __shfl_xor_sync(0xffffffffu, best, apart);
      best = other > best ? other : best;
    }
    if (threadIdx.x == 0) {
      a.values[row * a.k + i] = best == kNothing ? -INFINITY : value_of(best);
      a.ids[row * a.k + i] = best == kNothing ? 0 : id_of(best);
      if (i == 0) {
        const double log_sum = static_cast<double>(all.reference) + log(all.sum);
        a.log_sums[row] = all.sum == 0.0 ? -INFINITY : log_sum;
      }
    }
    if (own != kNothing && own == best && ++used == kKept) {
      used = 0;
#pragma unroll
      for (int j = 0; j < kKept; ++j) kept[j] = kNothing;
      last = -INFINITY;
      for_own_part<T, N>(
          x, a.num_classes, [](const Raw<T, N>(&)[kRowBatch]) {},
          [&](float value, uint32_t id) {
            if (key_of(value, id) < best) keep(kept, last, value, id);
          });
    }
  }
}

}  // namespace
}  // namespace cuda

void top_logits_cuda(const TopLogitsArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "top_logits_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"logits", args.logits_BV}});
  PLIMSOLL_CHECK(args.k >= 1 && args.k <= kMaxTopLogits && args.num_classes >= args.k,
                 "{} finds 1 to {} logits, and at most all of them, but the {} largest of {} are requested",
                 kKernel, kMaxTopLogits, args.k, args.num_classes);
  if (args.num_rows <= 0) return;
  const cuda::TopRows rows{.num_classes = args.num_classes,
                           .k = static_cast<int>(args.k),
                           .values = args.values_BK.as<float>(),
                           .ids = args.ids_BK.as<int32_t>(),
                           .log_sums = args.log_sum_B.as<double>()};
  cuda::with_row_packs(dtype, args.num_classes, {args.logits_BV.data}, [&](auto type, auto n) {
    using T = decltype(type);
    constexpr int kN = decltype(n)::value;
    const auto kernel = args.k == 1 ? cuda::top_logits_kernel<T, kN, 1> : cuda::top_logits_kernel<T, kN, 4>;
    kernel<<<static_cast<unsigned>(args.num_rows), cuda::kTopThreads, 0, stream>>>(
        static_cast<const T*>(args.logits_BV.data), rows);
  });
  PLIMSOLL_CHECK_LAUNCH("top_logits");
}

}  // namespace plimsoll
