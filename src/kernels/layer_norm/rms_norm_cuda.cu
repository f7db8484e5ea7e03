#include "kernels/layer_norm/rms_norm.h"

#include <algorithm>

#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/layer_norm/norm_few_rows.h"

namespace plimsoll {
namespace cuda {
namespace {

// Returns the number of groups of threads per thread block. A group processes one vector at a time. A group of one warp shares its block
// with three other groups; a larger group is a whole block.
constexpr int64_t groups_of_block(int64_t threads) {
  return threads == 32 ? 4 : 1;
}
constexpr int kMaxGroupThreads = 256;
constexpr int kMaxGroupWarps = kMaxGroupThreads / 32;
constexpr int kElements = static_cast<int>(kRmsNormElements);

// The vectors of each row to which one gain applies: `count` of them, starting with vector number `first`.
struct Vectors {
  int64_t row_elements = 0;  // number of elements of a row, called N in rms_norm.h
  int64_t per_row = 0;       // H + G, the length of a row of rstd
  int64_t total = 0;         // T * count, the number of vectors
  int count = 1, first = 0;
  int C = 0;

  __device__ __forceinline__ int64_t element(int64_t r) const {
    return r / count * row_elements + static_cast<int64_t>(first + r % count) * C;
  }
  __device__ __forceinline__ int64_t place(int64_t r) const {
    return r / count * per_row + first + r % count;
  }
};

// The elements of a vector that one thread processes. They are loaded N at a time; neighbouring threads load neighbouring groups of N
// elements.
template <typename T, int N, int kPacks>
struct Part {
  float x[kPacks][N];

  __device__ __forceinline__ void load(const T* from, int C, int thread, int threads) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c < C) {
        load_floats<T, N>(from + c, x[j]);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) x[j][i] = 0.0f;
      }
    }
  }
  // Adds another vector and stores the sum. The elements then have the values of the stored sum, which is rounded.
  __device__ __forceinline__ void add_and_store(const T* other, T* sum, int C, int thread, int threads) {
    Raw<T, N> terms[kPacks];
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c < C) terms[j] = load_raw<T, N>(other + c);
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c >= C) continue;
      float term[N];
      unpack<T, N>(terms[j], term);
#pragma unroll
      for (int i = 0; i < N; ++i) x[j][i] += term[i];
      const Raw<T, N> rounded = pack<T, N>(x[j]);
      store_raw<T, N>(sum + c, rounded);
      unpack<T, N>(rounded, x[j]);
    }
  }
};

// Returns the sum of `value` over the threads of a group. If a group is a whole block, all of its threads must call this, because it
// contains a barrier; two successive calls must use different `slots`.
__device__ __forceinline__ float group_sum(float value, int thread, int threads, float* slots) {
  return threads == 32 ? warp_sum(value) : block_sum(value, thread, threads / 32, slots);
}

// Normalizes vectors. Launched with blockDim = (threads per group, groups per block). Of G groups, each processes every G-th vector.
template <typename T, int N, int kPacks>
__global__ void __launch_bounds__(kMaxGroupThreads)
    rms_norm_fwd_kernel(const T* x, const T* residual, T* y, T* sum, float* rstds, AnyFloats gain,
                        Vectors vectors, float eps) {
  let_next_launch_begin();
  __shared__ float slots[2][kMaxGroupWarps];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    if (c < vectors.C) prefetch_to_l2(gain.address(c));
  }
  wait_for_launch_before();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  int slot = 0;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < vectors.total;
       r += step, slot ^= 1) {
    const int64_t at = vectors.element(r);
    Part<T, N, kPacks> part;
    part.load(x + at, vectors.C, thread, threads);
    if (residual != nullptr) part.add_and_store(residual + at, sum + at, vectors.C, thread, threads);
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int i = 0; i < N; ++i) squares = fmaf(part.x[j][i], part.x[j][i], squares);
    }
    const float total = group_sum(squares, thread, threads, slots[slot]);
    const float rstd = 1.0f / sqrtf(total / static_cast<float>(vectors.C) + eps);
    if (rstds != nullptr && thread == 0) rstds[vectors.place(r)] = rstd;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c >= vectors.C) continue;
      float factors[N];
      gain.load<N>(c, factors);
#pragma unroll
      for (int i = 0; i < N; ++i) factors[i] *= part.x[j][i] * rstd;
      store_floats<T, N>(y + at + c, factors);
    }
  }
}

// Computes the gradients. Launched with blockDim = (threads per group, groups per block). Group g of the grid processes vectors g, g +
// num_groups, ... and writes row g of the partial sums for d_gain.
template <typename T, int N, int kPacks>
__global__ void __launch_bounds__(kMaxGroupThreads)
    rms_norm_bwd_kernel(const T* d_y, const T* x, const T* d_sum_term, const float* rstds, T* d_x,
                        AnyFloats gain, Vectors vectors, PartialSums partials) {
  __shared__ float slots[2][kMaxGroupWarps];
  let_next_launch_begin();
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int64_t group = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (group >= partials.num_blocks)
    return;  // no barrier is missed: a group lacks work only if groups are single warps, whose sums need no barrier
  float sums[kPacks][N] = {};
  int slot = 0;
  for (int64_t r = group; r < vectors.total; r += partials.num_blocks, slot ^= 1) {
    const int64_t at = vectors.element(r);
    const float rstd = rstds[vectors.place(r)];
    Part<T, N, kPacks> from, value;
    from.load(d_y + at, vectors.C, thread, threads);
    value.load(x + at, vectors.C, thread, threads);
    Raw<T, N> terms[kPacks] = {};
    if (d_sum_term != nullptr) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int c = (thread + j * threads) * N;
        if (c < vectors.C) terms[j] = load_raw<T, N>(d_sum_term + at + c);
      }
    }
    float product = 0.0f;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c >= vectors.C) continue;
      float factors[N];
      gain.load<N>(c, factors);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        value.x[j][i] *= rstd;  // x is replaced by x_hat
        sums[j][i] = fmaf(from.x[j][i], value.x[j][i], sums[j][i]);
        from.x[j][i] *= factors[i];  // d_y is replaced by g = d_y gain
        product = fmaf(from.x[j][i], value.x[j][i], product);
      }
    }
    const float mean = group_sum(product, thread, threads, slots[slot]) / static_cast<float>(vectors.C);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c >= vectors.C) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) from.x[j][i] = rstd * fmaf(-value.x[j][i], mean, from.x[j][i]);
      if (d_sum_term != nullptr) {
        float term[N];
        unpack<T, N>(terms[j], term);
#pragma unroll
        for (int i = 0; i < N; ++i) from.x[j][i] += term[i];
      }
      store_floats<T, N>(d_x + at + c, from.x[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    if (c < vectors.C) store_floats<float, N>(partials.row(0, group) + c, sums[j]);
  }
}

// Copies the elements of each row from element `first` on, N at a time.
template <typename T, int N>
__global__ void __launch_bounds__(kMaxGroupThreads)
    copy_rest_kernel(const T* from, T* to, int64_t packs, int64_t packs_of_row, int64_t row_elements,
                     int64_t first) {
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * kMaxGroupThreads + threadIdx.x;
  if (pack >= packs) return;
  const int64_t at = pack / packs_of_row * row_elements + first + pack % packs_of_row * N;
  store_raw<T, N>(to + at, load_raw<T, N>(from + at));
}

template <typename T>
void copy_rest(const RmsNormDims& dims, const ConstView& from, const View& to, CudaStream stream) {
  const int64_t first = (dims.H + dims.G) * dims.C, rest = dims.N - first;
  if (from.data == to.data || rest == 0 || dims.T == 0) return;
  const auto* source = static_cast<const T*>(from.data);
  auto* target = static_cast<T*>(to.data);
  constexpr int kN = kPack<T>;
  const bool packs =
      rest % kN == 0 && first % kN == 0 && dims.N % kN == 0 && aligned_to_packs({source, target});
  const int64_t of_row = packs ? rest / kN : rest, total = dims.T * of_row;
  const auto blocks = static_cast<unsigned>(ceil_div(total, kMaxGroupThreads));
  if (packs) {
    copy_rest_kernel<T, kN>
        <<<blocks, kMaxGroupThreads, 0, stream>>>(source, target, total, of_row, dims.N, first);
  } else {
    copy_rest_kernel<T, 1>
        <<<blocks, kMaxGroupThreads, 0, stream>>>(source, target, total, of_row, dims.N, first);
  }
  PLIMSOLL_CHECK_LAUNCH("rms_norm (copy of the elements that are not normalized)");
}

Vectors vectors_of(const RmsNormDims& dims, int64_t first, int64_t count) {
  return {dims.N,
          dims.H + dims.G,
          dims.T * count,
          static_cast<int>(count),
          static_cast<int>(first),
          static_cast<int>(dims.C)};
}

void check_dims(const char* kernel, const RmsNormDims& dims) {
  PLIMSOLL_CHECK(
      dims.C >= 1 && dims.C <= kMaxRmsNormCudaColumns && dims.H >= 1 && dims.G >= 0 &&
          (dims.H + dims.G) * dims.C <= dims.N,
      "{}: the vectors that are normalized must have at most {} elements each and must fit into a row, "
      "but there are {} vectors with the first gain and {} with the second, of {} elements each, in rows of "
      "{} elements",
      kernel, kMaxRmsNormCudaColumns, dims.H, dims.G, dims.C, dims.N);
}

// Calls launch(N, kPacks, threads): N is the number of elements per load, kPacks the number of loads per thread, and `threads` the number
// of threads per group. N and kPacks are integral constants. A load reads 16 bytes if addresses and sizes allow it, else one element.
// kPacks is the smallest of the compiled numbers with which a group holds a whole vector.
template <typename T, class Launch>
void with_packs(const RmsNormDims& dims, std::initializer_list<const void*> pointers, const Launch& launch) {
  const int64_t threads = rms_norm_cuda_threads(dims.C);
  constexpr int kN = kPack<T>;
  using Wide = std::integral_constant<int, kN>;
  if (dims.C % kN == 0 && dims.N % kN == 0 && aligned_to_packs(pointers)) {
    if (dims.C <= 8 * threads) return launch(Wide(), std::integral_constant<int, 8 / kN>(), threads);
    return launch(Wide(), std::integral_constant<int, kElements / kN>(), threads);
  }
  launch(std::integral_constant<int, 1>(), std::integral_constant<int, kElements>(), threads);
}

}  // namespace
}  // namespace cuda

void rms_norm_fwd_cuda(const RmsNormFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "rms_norm_fwd_cuda";
  constexpr auto kOptional = Operand::Presence::kOptional;
  const DType dtype = cuda::cuda_type_of(
      kKernel,
      {{"x", args.x}, {"y", args.y}, {"residual", args.residual, kOptional}, {"sum", args.sum, kOptional}});
  cuda::check_cuda_operands(kKernel, {{"gain", args.gain}});
  cuda::check_dims(kKernel, args.dims);
  check_rms_norm_residual(kKernel, args);
  const NormFewRowsArgs few_rows{.x = args.x,
                                 .residual = args.residual,
                                 .norm_bias = {},
                                 .gain = args.gain,
                                 .beta = {},
                                 .y = args.y,
                                 .sum = args.sum,
                                 .T = args.dims.T,
                                 .C = args.dims.C,
                                 .eps = args.eps,
                                 .norm = NormKind::kRms};
  const bool is_whole_row = args.dims.C == args.dims.N && args.dims.H == 1 && args.dims.G == 0;
  if (is_whole_row && !args.rstd && norm_few_rows_fit(few_rows)) return norm_few_rows_cuda(few_rows, stream);
  const auto run = [&](const ConstView& gain, int64_t first, int64_t count) {
    const cuda::Vectors vectors = cuda::vectors_of(args.dims, first, count);
    if (vectors.total == 0) return;
    cuda::with_cuda_type(dtype, [&](auto type) {
      using T = decltype(type);
      cuda::with_packs<T>(
          args.dims, {args.x.data, args.residual.data, args.y.data, args.sum.data, gain.data},
          [&](auto n, auto packs, int64_t threads) {
            const int64_t groups = cuda::groups_of_block(threads);
            // At most as many threads are launched as 264 multiprocessors run at once (2048 each). If there are more vectors than groups,
            // each group processes several vectors one after the other.
            const int64_t blocks =
                std::min(cuda::ceil_div(vectors.total, groups), 264 * 2048 / (threads * groups));
            const dim3 block(static_cast<unsigned>(threads), static_cast<unsigned>(groups));
            cuda::launch_early(cuda::rms_norm_fwd_kernel<T, decltype(n)::value, decltype(packs)::value>,
                               {dim3(static_cast<unsigned>(blocks)), block}, stream,
                               static_cast<const T*>(args.x.data), static_cast<const T*>(args.residual.data),
                               static_cast<T*>(args.y.data), static_cast<T*>(args.sum.data),
                               static_cast<float*>(args.rstd.data), cuda::any_floats(gain), vectors,
                               static_cast<float>(args.eps));
          });
    });
  };
  run(args.gain, 0, args.dims.H);
  if (args.dims.G > 0) run(args.second_gain, args.dims.H, args.dims.G);
  cuda::with_cuda_type(
      dtype, [&](auto type) { cuda::copy_rest<decltype(type)>(args.dims, args.x, args.y, stream); });
}

void rms_norm_bwd_cuda(const RmsNormBwdArgs& args, const int32_t* accumulate, CudaStream stream) {
  constexpr const char* kKernel = "rms_norm_bwd_cuda";
  const DType dtype =
      cuda::cuda_type_of(kKernel, {{"d_y", args.d_y},
                                   {"x", args.x},
                                   {"d_x", args.d_x},
                                   {"d_sum_term", args.d_sum_term, Operand::Presence::kOptional}});
  cuda::check_cuda_operands(kKernel, {{"gain", args.gain}});
  cuda::check_dims(kKernel, args.dims);
  check_column_sum(kKernel, {"d_gain", args.d_gain}, args.scratch);
  const int64_t most = args.dims.T * std::max(args.dims.H, args.dims.G);
  const int64_t planned = rms_norm_cuda_groups(most, args.dims.C).num_blocks;
  const auto run = [&](const ConstView& gain, const View& d_gain, int64_t first, int64_t count) {
    const cuda::Vectors vectors = cuda::vectors_of(args.dims, first, count);
    const cuda::PartialSums partials =
        cuda::partial_sums(args.scratch, std::min(planned, vectors.total), args.dims.C);
    if (vectors.total > 0) {
      cuda::with_cuda_type(dtype, [&](auto type) {
        using T = decltype(type);
        cuda::with_packs<T>(
            args.dims,
            {args.d_y.data, args.x.data, args.d_sum_term.data, args.d_x.data, gain.data, args.scratch.data},
            [&](auto n, auto packs, int64_t threads) {
              const int64_t groups = cuda::groups_of_block(threads);
              const dim3 block(static_cast<unsigned>(threads), static_cast<unsigned>(groups));
              const auto blocks = static_cast<unsigned>(cuda::ceil_div(partials.num_blocks, groups));
              cuda::rms_norm_bwd_kernel<T, decltype(n)::value, decltype(packs)::value>
                  <<<blocks, block, 0, stream>>>(
                      static_cast<const T*>(args.d_y.data), static_cast<const T*>(args.x.data),
                      static_cast<const T*>(args.d_sum_term.data), static_cast<const float*>(args.rstd.data),
                      static_cast<T*>(args.d_x.data), cuda::any_floats(gain), vectors, partials);
              PLIMSOLL_CHECK_LAUNCH("rms_norm_bwd");
            });
      });
    }
    cuda::add_up_partials(partials, {{cuda::any_floats_out(d_gain)}}, 1, args.dims.C,
                          cuda::add_flag(accumulate, args.accumulate), stream);
  };
  run(args.gain, args.d_gain, 0, args.dims.H);
  if (args.dims.G > 0) run(args.second_gain, args.d_second_gain, args.dims.H, args.dims.G);
  cuda::with_cuda_type(
      dtype, [&](auto type) { cuda::copy_rest<decltype(type)>(args.dims, args.d_y, args.d_x, stream); });
}

}  // namespace plimsoll
