// Gives the kernels of Adafactor access to a tensor: one tile at a time, with four adjacent columns of each row per thread. Only for .cu
// files. Thread-safe: no state.
#pragma once

#include <type_traits>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/split.cuh"

namespace plimsoll::cuda {

inline constexpr int kAdafactorThreads = 256;
static_assert(kAdafactorTileColumns == 4 * kAdafactorThreads);

struct AdafactorEntry {
  void* param;  // the parameter: f32, or bf16 with stochastic rounding
  const void* grad;
  float* row;     // the row state; null if the tensor is a vector
  float* column;  // the column state or, if the tensor is a vector, its state v
  float* m;       // the first moment; null if beta1 is not used
  void* low;      // the 16-bit copy of the parameter; null if there is none
  float* row_sums;
  float* column_sums;
  double* tile_sums;
  double* mean;
  int64_t columns;
  // Index of the tensor's first element within its parameter, from which the random numbers are derived.
  int64_t first;
  int32_t rows;
  int32_t column_tiles;
  uint32_t first_chunk;
  int32_t num_tiles;
  DType grad_dtype;
  DType low_dtype;
  // True if every row of every array is aligned for accesses of four elements, and the random numbers can be drawn in groups of four.
  bool packs;
};

// The tile of a tensor that a thread block processes, and the columns that the current thread processes.
struct AdafactorTile {
  int row, num_rows;
  int64_t column;   // the first column that the thread processes
  int num_columns;  // number of columns that the thread processes, 0 to 4
  int index;        // index of the tile in the tensor

  __device__ __forceinline__ AdafactorTile(const AdafactorEntry& entry, uint32_t chunk)
      : index(static_cast<int>(chunk - entry.first_chunk)) {
    constexpr int kRows = static_cast<int>(kAdafactorTileRows);
    row = index / entry.column_tiles * kRows;
    num_rows = min(kRows, entry.rows - row);
    column = static_cast<int64_t>(index % entry.column_tiles) * kAdafactorTileColumns + 4 * threadIdx.x;
    const int64_t left = entry.columns - column;
    num_columns = left < 0 ? 0 : (left < 4 ? static_cast<int>(left) : 4);
  }
};

// Loads four adjacent elements of a row. Elements past the last column are set to `beyond`.
template <class Load>
__device__ __forceinline__ void load_columns(bool packs, int num_columns, float beyond, float (&x)[4],
                                             const Load& load) {
  if (packs && num_columns == 4) {
    load(x);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) x[k] = beyond;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < num_columns) load(k, x[k]);
  }
}
template <class T>
struct LoadNumbers {
  const T* data;
  __device__ __forceinline__ void operator()(float (&x)[4]) const { load_floats<T, 4>(data, x); }
  __device__ __forceinline__ void operator()(int k, float& x) const {
    float one[1];
    load_floats<T, 1>(data + k, one);
    x = one[0];
  }
};
using LoadFloats = LoadNumbers<float>;
struct LoadAny {
  AnyFloats data;
  int64_t first;
  __device__ __forceinline__ void operator()(float (&x)[4]) const { data.load<4>(first, x); }
  __device__ __forceinline__ void operator()(int k, float& x) const { x = data.at(first + k); }
};

__device__ __forceinline__ void load_gradient(const AdafactorEntry& entry, const AdafactorTile& tile, int row,
                                              float (&g)[4]) {
  const int64_t first = (tile.row + row) * entry.columns + tile.column;
  load_columns(entry.packs, tile.num_columns, 0.0f, g,
               LoadAny{AnyFloats{entry.grad, entry.grad_dtype}, first});
}

__device__ __forceinline__ void store_columns(bool packs, int num_columns, float* to, const float (&x)[4]) {
  if (packs && num_columns == 4) {
    store_floats<float, 4>(to, x);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < num_columns) to[k] = x[k];
  }
}

__device__ __forceinline__ void store_low_columns(const AdafactorEntry& entry, int num_columns, int64_t first,
                                                  const float (&x)[4]) {
  if (entry.low == nullptr) return;
  auto* bf16 = static_cast<__nv_bfloat16*>(entry.low) + first;
  auto* fp16 = static_cast<__half*>(entry.low) + first;
  const bool is_bf16 = entry.low_dtype == DType::kBF16;
  if (entry.packs && num_columns == 4) {
    if (is_bf16) {
      store_copy<4>(bf16, x);
    } else {
      store_floats<__half, 4>(fp16, x);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float one[1] = {x[k]};
    if (k >= num_columns) continue;
    if (is_bf16) {
      store_copy<1>(bf16 + k, one);
    } else {
      store_floats<__half, 1>(fp16 + k, one);
    }
  }
}

// Stores the new parameters of the thread's columns of one row, and their 16-bit copy if there is one. `first` is the index of the first of
// them in the tensor.
template <class Param>
__device__ __forceinline__ void store_parameters(const AdafactorEntry& entry, int num_columns, int64_t first,
                                                 const float (&x)[4], const Noise& noise) {
  auto* to = static_cast<Param*>(entry.param) + first;
  if constexpr (std::is_same_v<Param, float>) {
    store_columns(entry.packs, num_columns, to, x);
    store_low_columns(entry, num_columns, first, x);
  } else if (entry.packs && num_columns == 4) {
    uint32_t numbers[2];
    noise.draw<4>(entry.first + first, numbers);
    store_raw<__nv_bfloat16, 4>(to, rounded_stochastically<4>(x, numbers));
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= num_columns) continue;
      const float one[1] = {x[k]};
      uint32_t number[1];
      noise.draw<1>(entry.first + first + k, number);
      store_raw<__nv_bfloat16, 1>(to + k, rounded_stochastically<1>(one, number));
    }
  }
}

}  // namespace plimsoll::cuda
