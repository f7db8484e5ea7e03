// Element-wise CUDA kernels over flat tensors: y[i] = f(a[i]) or f(a[i], b[i]). Each thread handles four
// packs and loads all of them before it computes the first. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll::cuda {

inline constexpr int kFlatThreads = 256;
inline constexpr int kFlatPacks = 4;

// A Function must have three members. void f.begin() reads values from device memory, once per thread. void f.apply<N>(float (&x)[N], const
// float (&other)[N], int64_t first) gets N elements of the array `a`, from element `first` on, in x, and replaces them by the results;
// `other` contains the same elements of the array `b`, or is undefined if `b` is null. bool f.reads_a() returns whether `a` is needed. y
// may be the same array as `a` or `b`, because a thread reads its elements before it writes them.
template <typename A, typename B, typename Y, int N, class Function>
__global__ void __launch_bounds__(kFlatThreads)
    flat_kernel(const A* a, const B* b, Y* y, int64_t n, Function function) {
  const int64_t packs = n / N;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kFlatThreads * kFlatPacks) + threadIdx.x;
  function.begin();
  const bool reads_a = function.reads_a();
  Raw<A, N> raw_a[kFlatPacks] = {};
  Raw<B, N> raw_b[kFlatPacks] = {};
#pragma unroll
  for (int u = 0; u < kFlatPacks; ++u) {
    const int64_t pack_index = first + u * kFlatThreads;
    if (pack_index < packs) {
      if (reads_a) raw_a[u] = load_raw<A, N>(a + pack_index * N);
      if (b != nullptr) raw_b[u] = load_raw<B, N>(b + pack_index * N);
    }
  }
#pragma unroll
  for (int u = 0; u < kFlatPacks; ++u) {
    const int64_t pack_index = first + u * kFlatThreads;
    if (pack_index < packs) {
      float x[N], other[N];
      unpack<A, N>(raw_a[u], x);
      unpack<B, N>(raw_b[u], other);
      function.template apply<N>(x, other, pack_index * N);
      store_floats<Y, N>(y + pack_index * N, x);
    }
  }
  // Processes one by one the elements that do not fill a whole pack (16 bytes of adjacent elements).
  if constexpr (N > 1) {
    const int64_t i = packs * N + threadIdx.x;
    if (blockIdx.x == 0 && i < n) {
      float x[1] = {0.0f}, other[1] = {0.0f};
      if (reads_a) load_floats<A, 1>(a + i, x);
      if (b != nullptr) load_floats<B, 1>(b + i, other);
      function.template apply<1>(x, other, i);
      store_floats<Y, 1>(y + i, x);
    }
  }
}

// Launches the kernel. If all addresses are aligned to 16 bytes, each access has 16 bytes (a pack) of y's type, and neighbouring threads
// write neighbouring packs. Otherwise each access is a single element.
template <typename A, typename B, typename Y, class Function>
void launch_flat(const ConstView& a, const ConstView& b, const View& y, int64_t n, const Function& function,
                 CudaStream stream) {
  if (n <= 0) return;
  constexpr int kN = kPack<Y>;
  const auto* from_a = static_cast<const A*>(a.data);
  const auto* from_b = static_cast<const B*>(b.data);
  auto* to = static_cast<Y*>(y.data);
  if (aligned_to_packs({a.data, b.data, y.data})) {
    const auto blocks = static_cast<unsigned>(ceil_div(ceil_div(n, kN), kFlatThreads * kFlatPacks));
    flat_kernel<A, B, Y, kN><<<blocks, kFlatThreads, 0, stream>>>(from_a, from_b, to, n, function);
  } else {
    const auto blocks = static_cast<unsigned>(ceil_div(n, kFlatThreads * kFlatPacks));
    flat_kernel<A, B, Y, 1><<<blocks, kFlatThreads, 0, stream>>>(from_a, from_b, to, n, function);
  }
  PLIMSOLL_CHECK_LAUNCH("an element-wise kernel");
}

}  // namespace plimsoll::cuda
