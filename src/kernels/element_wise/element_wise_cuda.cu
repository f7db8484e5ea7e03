#include "kernels/element_wise/cast.h"

#include "kernels/element_wise/cuda/flat.cuh"
#include "kernels/element_wise/cuda/random.cuh"
#include "kernels/element_wise/dropout.h"

namespace plimsoll {

namespace cuda {
namespace {

struct Identity {
  __device__ void begin() {}
  __device__ bool reads_a() const { return true; }
  template <int N>
  __device__ void apply(float (&)[N], const float (&)[N], int64_t) const {}
};

}  // namespace
}  // namespace cuda

void cast_fwd_cuda(const CastFwdArgs& args, CudaStream stream) {
  cuda::check_cuda_operands("cast_fwd_cuda", {{"x", args.x}, {"y", args.y}});
  cuda::with_cuda_type(args.x.dtype, [&](auto from) {
    cuda::with_cuda_type(args.y.dtype, [&](auto to) {
      using X = decltype(from);
      cuda::launch_flat<X, X, decltype(to)>(args.x, {}, args.y, args.n, cuda::Identity{}, stream);
    });
  });
}

namespace cuda {
namespace {

struct Drop {
  Dropout dropout;
  DropoutColumns columns;
  RandomSite site = {};

  __device__ void begin() { site = dropout.site(); }
  __device__ bool reads_a() const { return true; }
  template <int N>
  __device__ void apply(float (&x)[N], const float (&)[N], int64_t first) const {
    if (!dropout.on) return;
    // The N elements of x have consecutive random numbers, of which the first is at a multiple of N, if the elements are a whole tensor (C
    // = 0), or if C is a multiple of eight, because then `all` and `first` are multiples of eight too. dropout.apply() can then draw the N
    // numbers together.
    if (columns.C % static_cast<int64_t>(kHalvesOfBlock) == 0)
      return dropout.apply<N>(site, columns.number_of(first), x);
    int64_t numbers[N];
    uint32_t words[N][1];
#pragma unroll
    for (int i = 0; i < N; ++i) numbers[i] = columns.number_of(first + i);
    dropout.draw<N, 1>(site, numbers, words);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] *= dropout.factor_of_low(words[i][0]);
  }
};

}  // namespace
}  // namespace cuda

void dropout_fwd_cuda(const DropoutFwdArgs& args, const int64_t* rng, CudaStream stream) {
  constexpr const char* kKernel = "dropout_fwd_cuda";
  const DType dtype = cuda::cuda_type_of(kKernel, {{"x", args.x}, {"y", args.y}});
  const cuda::Drop drop{cuda::dropout_of(kKernel, args.p, args.where, rng), args.columns};
  cuda::with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    cuda::launch_flat<T, T, T>(args.x, {}, args.y, args.n, drop, stream);
  });
}

}  // namespace plimsoll
