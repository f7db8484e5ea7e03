// Code that the CUDA kernels of losses share: the assignment of rows to threads, a sum over a row, and the
// launch that adds the rows' losses. Only for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll::cuda {

// A row of up to this many classes is handled by one warp, and a longer row by one block.
inline constexpr int64_t kClassesPerWarp = 1024;
inline constexpr int kLossThreads = 512;
inline constexpr int kLossWarps = kLossThreads / 32;
inline constexpr int kLossRowsPerBlock = 4;

struct LossGrid {
  unsigned blocks;
  dim3 block;
};
inline LossGrid loss_grid(int64_t num_rows, int64_t num_classes) {
  if (num_classes <= kClassesPerWarp) {
    return {static_cast<unsigned>(ceil_div(num_rows, kLossRowsPerBlock)), dim3(32, kLossRowsPerBlock)};
  }
  return {static_cast<unsigned>(num_rows), dim3(kLossThreads, 1)};
}

// Returns the index of the row that this thread processes. It may be larger than that of the last row.
__device__ __forceinline__ int64_t loss_row() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// Returns the sum of term(x_k) over a row. Elements that a thread loads at once are added in fp32, everything else in double. Requires: all
// threads of the row call it; `slots` is the shared memory that block_sum (element_wise/cuda/reductions.cuh) needs.
template <typename T, int N, class Term>
__device__ __forceinline__ double row_sum(const T* x, int64_t num_classes, double* slots, const Term& term) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  double sum = 0.0;
#pragma unroll 4
  for (int64_t k = thread * N; k < num_classes; k += threads * N) {
    float values[N];
    load_floats<T, N>(x + k, values);
    float pack_sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) pack_sum += term(values[i]);
    sum += static_cast<double>(pack_sum);
  }
  return block_sum(sum, thread, threads / 32, slots);
}

// Calls body(T{}, integral_constant<N>), which must launch kernel<T, N> with accesses of N elements. N elements have 16 bytes if every row
// begins at a multiple of 16 bytes; rows are `row_stride` elements apart. Otherwise N is 1.
template <class Body>
void with_row_packs(DType dtype, int64_t row_stride, std::initializer_list<const void*> pointers,
                    const Body& body) {
  with_cuda_type(dtype, [&](auto type) {
    constexpr int kN = kPack<decltype(type)>;
    if (row_stride % kN == 0 && aligned_to_packs(pointers)) {
      body(type, std::integral_constant<int, kN>());
    } else {
      body(type, std::integral_constant<int, 1>());
    }
  });
}

// Adds the losses of num_rows rows in double, in an order that depends only on their number. Divides the sum by `denominator` (in device
// memory) times `divisor`, then stores it or, if `adds` is true, adds it to the old loss. Defined in loss_rows.cu.
struct LossTotal {
  Scalar loss;
  Scalar denominator;
  double divisor = 1.0;
  bool adds = false;
};
void add_row_losses(const double* rows, int64_t num_rows, const LossTotal& total, CudaStream stream);

// Returns the scratch memory as an array of the losses of rows. Errors: kInternal if it is missing.
inline double* row_losses(const char* kernel, const View& scratch, int64_t num_rows) {
  PLIMSOLL_CHECK(scratch || num_rows == 0, "{} needs scratch memory for the losses of the rows, but has none",
                 kernel);
  return static_cast<double*>(scratch.data);
}

inline Integer real_rows(const char* kernel, const ConstView& view, int64_t otherwise) {
  PLIMSOLL_CHECK(!view || view.dtype == DType::kI32 || view.dtype == DType::kI64,
                 "{}: the number of real rows must be i32 or i64, but is {}", kernel, dtype_name(view.dtype));
  return {view.data, view.dtype == DType::kI64, otherwise};
}

}  // namespace plimsoll::cuda
