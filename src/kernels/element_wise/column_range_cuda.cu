#include "kernels/element_wise/column_range.h"

#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

// Each thread computes one pack (16 bytes of adjacent elements) of a row. The index of the thread is the number of its pack, counted over
// the `width` columns of all rows.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) columns_kernel(const T* x, T* y, int64_t num_packs, int64_t width,
                                                           int64_t stride, int64_t first, float scale) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= num_packs) return;
  const int64_t packs = width / N;
  const int64_t t = i / packs;
  const int64_t k = (i - t * packs) * N;
  float values[N];
  load_floats<T, N>(x + t * stride + first + k, values);
#pragma unroll
  for (int j = 0; j < N; ++j) values[j] *= scale;
  store_floats<T, N>(y + t * width + k, values);
}

// Computes the columns [begin, begin + width) of z. If z is the same array as x, only the columns to which y is added are computed, because
// the others do not change; otherwise all columns are.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    add_columns_kernel(const T* x, const T* y, T* z, int64_t num_packs, int64_t begin, int64_t width,
                       int64_t stride, int64_t first, int64_t K) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= num_packs) return;
  const int64_t packs = width / N;
  const int64_t t = i / packs;
  const int64_t n = begin + (i - t * packs) * N;
  float values[N];
  load_floats<T, N>(x + t * stride + n, values);
  if (n >= first && n < first + K) {
    float added[N];
    load_floats<T, N>(y + t * K + n - first, added);
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] += added[j];
  }
  store_floats<T, N>(z + t * stride + n, values);
}

template <typename T>
bool in_packs(std::initializer_list<int64_t> sizes, std::initializer_list<const void*> pointers) {
  for (int64_t size : sizes) {
    if (size % kPack<T> != 0) return false;
  }
  return aligned_to_packs(pointers);
}

template <typename T, int N>
void launch_columns(const ColumnsFwdArgs& args, CudaStream stream) {
  const int64_t num_packs = args.T * (args.K / N);
  columns_kernel<T, N><<<static_cast<unsigned>(ceil_div(num_packs, kThreads)), kThreads, 0, stream>>>(
      static_cast<const T*>(args.x.data), static_cast<T*>(args.y.data), num_packs, args.K, args.N, args.first,
      static_cast<float>(args.scale));
  PLIMSOLL_CHECK_LAUNCH("columns_fwd_cuda");
}

template <typename T, int N>
void launch_add_columns(const AddColumnsFwdArgs& args, CudaStream stream) {
  const bool in_place = args.x.data == args.z.data;
  const int64_t begin = in_place ? args.first : 0;
  const int64_t width = in_place ? args.K : args.N;
  const int64_t num_packs = args.T * (width / N);
  add_columns_kernel<T, N><<<static_cast<unsigned>(ceil_div(num_packs, kThreads)), kThreads, 0, stream>>>(
      static_cast<const T*>(args.x.data), static_cast<const T*>(args.y.data), static_cast<T*>(args.z.data),
      num_packs, begin, width, args.N, args.first, args.K);
  PLIMSOLL_CHECK_LAUNCH("add_columns_fwd_cuda");
}

}  // namespace
}  // namespace cuda

void columns_fwd_cuda(const ColumnsFwdArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("columns_fwd_cuda", {{"x", args.x}, {"y", args.y}});
  if (args.T <= 0 || args.K <= 0) return;
  cuda::with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (cuda::in_packs<T>({args.N, args.K, args.first}, {args.x.data, args.y.data})) {
      cuda::launch_columns<T, cuda::kPack<T>>(args, stream);
    } else {
      cuda::launch_columns<T, 1>(args, stream);
    }
  });
}

void add_columns_fwd_cuda(const AddColumnsFwdArgs& args, CudaStream stream) {
  const DType dtype =
      cuda::cuda_type_of("add_columns_fwd_cuda", {{"x", args.x}, {"y", args.y}, {"z", args.z}});
  if (args.T <= 0 || args.K <= 0) return;
  cuda::with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (cuda::in_packs<T>({args.N, args.K, args.first}, {args.x.data, args.y.data, args.z.data})) {
      cuda::launch_add_columns<T, cuda::kPack<T>>(args, stream);
    } else {
      cuda::launch_add_columns<T, 1>(args, stream);
    }
  });
}

}  // namespace plimsoll
