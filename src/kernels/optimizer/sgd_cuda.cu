#include "kernels/optimizer/sgd.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {

// The arguments of an SGD kernel other than the tensors: the addresses of scalars in device memory, and constants.
struct SgdScalars {
  Scalar learning_rate;
  const int64_t* step;  // the step number; null without momentum
  NoiseScalars noise;
  OptionalScalar clip, finite;
  float momentum, weight_decay;
  bool nesterov;
};

// The update of one element, and its coefficients, which are rounded to fp32 once.
struct SgdStep {
  float lr, clip, weight_decay, momentum;
  bool has_buffer, starts, nesterov;

  __device__ __forceinline__ void apply(float& p, float g, float& m, float&) const {
    g = fmaf(weight_decay, p, g * clip);
    float direction = g;
    if (has_buffer) {
      m = starts ? g : fmaf(momentum, m, g);
      direction = nesterov ? fmaf(momentum, m, g) : m;
    }
    p = fmaf(-lr, direction, p);
  }
};

__device__ SgdStep sgd_step(const SgdScalars& s) {
  return {static_cast<float>(s.learning_rate.get()),
          static_cast<float>(s.clip.get()),
          s.weight_decay,
          s.momentum,
          s.step != nullptr,
          s.step != nullptr && *s.step == 1,
          s.nesterov};
}

// Returns the arguments of a launch. Errors: kInternal for Nesterov without momentum.
SgdScalars sgd_scalars(const char* kernel, const SgdArgs& args) {
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0,
                 "SGD with Nesterov needs momentum above 0");
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .step = args.momentum != 0.0 ? args.step.as<int64_t>() : nullptr,
          .noise = NoiseScalars::of(args),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .momentum = static_cast<float>(args.momentum),
          .weight_decay = static_cast<float>(args.weight_decay),
          .nesterov = args.nesterov == Nesterov::kOn};
}

namespace {

template <UpdateTypes kTypes, Moments kMoments, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    sgd_kernel(const SgdScalars s, const __grid_constant__ Table table) {
  if (s.finite.get() == 0.0) return;
  SgdStep step = sgd_step(s);
  // Sets has_buffer (true if momentum is used) to a value that is known at compile time, so that the compiler removes the branches that
  // depend on it.
  step.has_buffer = kMoments == Moments::kSome;
  update_tensors<kTypes, kMoments>(table, step, Noise(s.noise));
}

template <Moments kMoments>
void launch_sgd(std::span<const OptimizerTensor> tensors, const UpdateEntryMaker& entry_of,
                const SgdScalars& scalars, CudaStream stream) {
  for_each_update<kMoments>(tensors, entry_of, [&]<UpdateTypes kTypes, class Table>(const Table& table) {
    const auto kernel = sgd_kernel<kTypes, kMoments, Table>;
    kernel<<<update_blocks(kernel, table.num_chunks), kUpdateThreads, 0, stream>>>(scalars, table);
    PLIMSOLL_CHECK_LAUNCH("sgd");
  });
}

// Returns the update for SGD with a momentum in 8 bits. has_buffer is set to a value that is known at compile time, so that the compiler
// removes the branches that depend on it.
__device__ SgdStep sgd_8bit_step(const SgdScalars& scalars) {
  SgdStep step = sgd_step(scalars);
  step.has_buffer = true;
  return step;
}

}  // namespace
}  // namespace cuda

void sgd_cuda(const SgdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "sgd_cuda";
  const cuda::SgdScalars scalars = cuda::sgd_scalars(kKernel, args);
  const bool has_momentum = args.momentum != 0.0;
  const cuda::UpdateEntryMaker entry_of{kKernel, has_momentum, false};
  if (has_momentum) {
    cuda::launch_sgd<cuda::Moments::kSome>(args.tensors, entry_of, scalars, stream);
  } else {
    cuda::launch_sgd<cuda::Moments::kNone>(args.tensors, entry_of, scalars, stream);
  }
}

void sgd_8bit_cuda(const SgdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "sgd_8bit_cuda";
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD needs momentum above 0, but it is {}", args.momentum);
  cuda::launch_eight_bit<false, cuda::sgd_8bit_step>(kKernel, args.tensors, cuda::sgd_scalars(kKernel, args),
                                                     stream);
}

}  // namespace plimsoll
