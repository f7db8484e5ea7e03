#include "kernels/optimizer/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/optimizer/global_norm.h"

namespace plimsoll::test {
namespace {

struct LossScaleCase {
  double scale, norm, finite;
  int32_t good_steps;
};
struct LossScaleBuffers {
  GuardedBuffer scale{"scale", DType::kF32, 1}, norm{"norm", DType::kF32, 1},
      finite{"finite", DType::kF32, 1}, unscaled{"unscaled", DType::kF32, 1}, used{"used", DType::kF32, 1},
      clip{"clip", DType::kF32, 1}, good = integers(DType::kI32, {0}), skipped = integers(DType::kI32, {4}),
                                    out = integers(DType::kI32, {0});

  explicit LossScaleBuffers(const LossScaleCase& test) {
    scale.fill(test.scale);
    norm.fill(test.norm);
    finite.fill(test.finite);
    good.view().as<int32_t>()[0] = test.good_steps;
  }
  template <class Place>
  AdjustLossScaleArgs adjustment(const Place& place) {
    return {.norm = place(norm),
            .finite = place(finite),
            .scale = place(scale),
            .good_steps = place(good),
            .skipped = place(skipped),
            .unscaled_norm = place(unscaled),
            .used_scale = place(used),
            .skipped_out = place(out)};
  }
  template <class Place>
  ClipCoefficientArgs clipping(const Place& place) {
    return {.norm = place(norm), .coefficient = place(clip), .max_norm = 0.5, .scale = place(scale)};
  }
};

TEST(LossScaleCuda, DoesAsTheReference) {
  for (const LossScaleCase& test : {LossScaleCase{65536, 3, 1, 0}, LossScaleCase{65536, 3, 1, 1999},
                                    LossScaleCase{65536, INFINITY, 0, 1999}, LossScaleCase{1, INFINITY, 0, 5},
                                    LossScaleCase{0x1p127, 3, 1, 1999}}) {
    LossScaleBuffers want(test), got(test);
    const auto host = [](GuardedBuffer& b) { return b.view(); };
    clip_coefficient_ref(want.clipping(host));
    adjust_loss_scale_ref(want.adjustment(host));
    Twins gpu;
    const auto device = [&](GuardedBuffer& b) { return gpu(b); };
    clip_coefficient_cuda(got.clipping(device), nullptr);
    adjust_loss_scale_cuda(got.adjustment(device), nullptr);
    gpu.download();
    for (const auto member : {&LossScaleBuffers::scale, &LossScaleBuffers::unscaled, &LossScaleBuffers::used,
                              &LossScaleBuffers::clip, &LossScaleBuffers::good, &LossScaleBuffers::skipped,
                              &LossScaleBuffers::out}) {
      expect_same_bits(got.*member, want.*member);
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
