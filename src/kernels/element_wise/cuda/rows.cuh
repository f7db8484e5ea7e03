// CUDA kernels over [T, C] tensors with operands per column: y[t, c] = f(x[t, c], operands of c). Each thread
// handles the same columns of four rows, and loads all of them before it computes the first one. Thread-safe:
// no state.
#pragma once

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll::cuda {

inline constexpr int kRowsThreads = 256;
inline constexpr int kRowsPerThread = 4;

// A Function must have two members: f.prepare<N>(int64_t c, float (&p)[2][N]) loads the operands of the columns from c on, and
// f.apply<N>(float (&x)[N], const float (&p)[2][N]) replaces x with results. y may be the same array as x.
template <typename X, int N, class Function>
__global__ void __launch_bounds__(kRowsThreads)
    rows_kernel(const X* x, X* y, int64_t T, int64_t C, Function function) {
  begin_early_launch();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (c >= C) return;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * blockDim.y * kRowsPerThread + threadIdx.y;
  Raw<X, N> raw[kRowsPerThread] = {};
#pragma unroll
  for (int u = 0; u < kRowsPerThread; ++u) {
    const int64_t t = first + u * blockDim.y;
    if (t < T) raw[u] = load_raw<X, N>(x + t * C + c);
  }
  float columns[2][N];
  function.template prepare<N>(c, columns);
#pragma unroll
  for (int u = 0; u < kRowsPerThread; ++u) {
    const int64_t t = first + u * blockDim.y;
    if (t < T) {
      float values[N];
      unpack<X, N>(raw[u], values);
      function.template apply<N>(values, columns);
      store_floats<X, N>(y + t * C + c, values);
    }
  }
}

template <typename X, int N, class Function>
void launch_rows_of(const ConstView& x, const View& y, int64_t T, int64_t C, const Function& function,
                    CudaStream stream) {
  // A thread computes one pack (16 bytes of adjacent elements) per row. The packs of a row are divided into as few groups of equal width as
  // possible such that a group has at most kRowsThreads packs. A thread block computes one group, in as many rows as its threads allow.
  const int64_t packs = C / N;
  const int64_t groups = ceil_div(packs, kRowsThreads);
  const int64_t width = ceil_div(ceil_div(packs, groups), 32) * 32;
  const int64_t height = kRowsThreads / width;
  // Several launches are used if there are many rows, because the grid's second dimension is limited to 65535.
  const int64_t rows_per_launch = int64_t{65535} * height * kRowsPerThread;
  for (int64_t t = 0; t < T; t += rows_per_launch) {
    const int64_t rows = T - t < rows_per_launch ? T - t : rows_per_launch;
    const dim3 grid(static_cast<unsigned>(groups),
                    static_cast<unsigned>(ceil_div(rows, height * kRowsPerThread)));
    const dim3 block(static_cast<unsigned>(width), static_cast<unsigned>(height));
    launch_early(rows_kernel<X, N, Function>, {grid, block}, stream, static_cast<const X*>(x.data) + t * C,
                 static_cast<X*>(y.data) + t * C, rows, C, function);
  }
}

// Launches rows_kernel. `operands` contains the addresses of the operands per column. If they, x and y are aligned to 16 bytes and a row
// consists of whole packs, each access has 16 bytes, otherwise it is a single element.
template <typename X, class Function>
void launch_rows(const ConstView& x, const View& y, int64_t T, int64_t C, const Function& function,
                 std::initializer_list<const void*> operands, CudaStream stream) {
  if (T <= 0 || C <= 0) return;
  if (C % kPack<X> == 0 && aligned_to_packs({x.data, y.data}) && aligned_to_packs(operands)) {
    launch_rows_of<X, kPack<X>>(x, y, T, C, function, stream);
  } else {
    launch_rows_of<X, 1>(x, y, T, C, function, stream);
  }
}

}  // namespace plimsoll::cuda
