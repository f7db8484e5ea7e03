#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/optimizer/loss_scale.h"

namespace plimsoll {
namespace cuda {
namespace {

struct LossScaleOperands {
  Scalar norm, finite, unscaled_norm, used_scale;
  float* scale;
  int32_t* good_steps;
  int32_t* skipped;
  int32_t* skipped_out;
  float smallest;
  int64_t growth_interval;
};

__global__ void adjust_loss_scale_kernel(const LossScaleOperands o) {
  float scale = *o.scale;
  int32_t good_steps = *o.good_steps;
  int32_t skipped = *o.skipped;
  o.used_scale.set(static_cast<double>(scale));
  o.unscaled_norm.set(o.norm.get() / static_cast<double>(scale));
  if (o.finite.get() == 0.0) {
    good_steps = 0;
    ++skipped;
    scale = fmaxf(0.5f * scale, o.smallest);
  } else if (++good_steps >= o.growth_interval) {
    good_steps = 0;
    if (isfinite(2.0f * scale)) scale *= 2.0f;
  }
  *o.scale = scale;
  *o.good_steps = good_steps;
  *o.skipped = skipped;
  *o.skipped_out = skipped;
}

}  // namespace
}  // namespace cuda

void adjust_loss_scale_cuda(const AdjustLossScaleArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adjust_loss_scale_cuda";
  const cuda::LossScaleOperands operands{
      .norm = cuda::scalar_of(kKernel, "norm", args.norm),
      .finite = cuda::scalar_of(kKernel, "finite", args.finite),
      .unscaled_norm = cuda::scalar_of(kKernel, "unscaled_norm", args.unscaled_norm),
      .used_scale = cuda::scalar_of(kKernel, "used_scale", args.used_scale),
      .scale = args.scale.as<float>(),
      .good_steps = args.good_steps.as<int32_t>(),
      .skipped = args.skipped.as<int32_t>(),
      .skipped_out = args.skipped_out.as<int32_t>(),
      .smallest = static_cast<float>(args.smallest),
      .growth_interval = args.growth_interval};
  cuda::adjust_loss_scale_kernel<<<1, 1, 0, stream>>>(operands);
  PLIMSOLL_CHECK_LAUNCH("adjust_loss_scale");
}

}  // namespace plimsoll
