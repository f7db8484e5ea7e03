#include "kernels/optimizer/adagrad.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {

// The arguments of an Adagrad kernel other than the tensors: the addresses of scalars in device memory, and constants.
struct AdagradScalars {
  Scalar learning_rate;
  const int64_t* step;
  OptionalScalar clip, finite;
  double lr_decay;
  float epsilon, weight_decay;
  NoiseScalars noise;
};

// The update of one element, and its coefficients, which are rounded to fp32 once.
struct AdagradStep {
  float rate, clip, weight_decay, epsilon;

  __device__ __forceinline__ void apply(float& p, float g, float& v, float&) const {
    g = fmaf(weight_decay, p, g * clip);
    v = fmaf(g, g, v);
    p = fmaf(-rate, g / (sqrtf(v) + epsilon), p);
  }
};

__device__ AdagradStep adagrad_step(const AdagradScalars& s) {
  const double rate = s.learning_rate.get() / (1.0 + static_cast<double>(*s.step - 1) * s.lr_decay);
  return {static_cast<float>(rate), static_cast<float>(s.clip.get()), s.weight_decay, s.epsilon};
}

AdagradScalars adagrad_scalars(const char* kernel, const AdagradArgs& args) {
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .step = args.step.as<int64_t>(),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .lr_decay = args.lr_decay,
          .epsilon = static_cast<float>(args.epsilon),
          .weight_decay = static_cast<float>(args.weight_decay),
          .noise = NoiseScalars::of(args)};
}

namespace {

template <UpdateTypes kTypes, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    adagrad_kernel(const AdagradScalars s, const __grid_constant__ Table table) {
  if (s.finite.get() == 0.0) return;
  const AdagradStep step = adagrad_step(s);
  update_tensors<kTypes>(table, step, Noise(s.noise));
}

}  // namespace
}  // namespace cuda

void adagrad_cuda(const AdagradArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adagrad_cuda";
  const cuda::AdagradScalars scalars = cuda::adagrad_scalars(kKernel, args);
  cuda::for_each_update(
      args.tensors, {kKernel, true, false}, [&]<cuda::UpdateTypes kTypes, class Table>(const Table& table) {
        const auto kernel = cuda::adagrad_kernel<kTypes, Table>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(scalars,
                                                                                                   table);
        PLIMSOLL_CHECK_LAUNCH("adagrad");
      });
}

void adagrad_8bit_cuda(const AdagradArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adagrad_8bit_cuda";
  cuda::launch_eight_bit<false, cuda::adagrad_step>(kKernel, args.tensors,
                                                    cuda::adagrad_scalars(kKernel, args), stream);
}

}  // namespace plimsoll
