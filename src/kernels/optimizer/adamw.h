// AdamW over a list of tensors in one call: contract. One call per parameter group (the weight decay is
// per call). Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula, per element, with g' = clip_coefficient * g, t = step (1 for the first update), bc1 = 1 -
// beta1^t, bc2 = 1 - beta2^t:
//   m <- m + (1 - beta1) (g' - m)          v <- v + (1 - beta2) (g'^2 - v)
//   p <- p - lr weight_decay p - (lr / bc1) m / (sqrt(v) / sqrt(bc2) + epsilon)
// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (ICLR 2019), algorithm 2, in the
// order of operations of torch.optim.AdamW (amsgrad and maximize off). Nothing is updated when finite is
// 0.
// Types: references take any floating type; CPU kernels moments of f32 or bf16 (either may be either),
// gradients of f32, bf16 or f16 and parameters in f32, split (tensor_list.h) or in bf16. learning_rate,
// clip_coefficient and finite: 1 element of f32 or f64; step: 1 element of i64.
// Rounding to bf16: the update is computed from what was stored, in fp32, and the weight moves by the moments
// before they are rounded. m is rounded to nearest, ties to even: it changes by 1 - beta1 of its distance
// from g, far more than the spacing of bf16 (2^-8). v and a bf16 parameter without a remainder change by less
// than half of that spacing, so that to nearest they would stand still; they are rounded by
// round_stochastically (base/split_f32.h). The noise of element i of tensor k is random_half({noise_seed,
// step, noise_site + k}, first + i) with the tensor's `first`, a pure function of step and element; that of v
// has a site of its own (noise_of_second_moment).
// Accumulation: lr weight_decay, lr/bc1, 1/sqrt(bc2) and 1 - beta are computed in double once per call and
// rounded to fp32 once. The decay and the Adam term are added before they meet p, so that p is rounded
// once per update; multiplying p by a rounded 1 - lr weight_decay, as PyTorch does, loses most digits of a
// small decay.
// Special values: where finite is absent, a NaN gradient makes its element NaN.
// Aliasing: no tensor overlaps another.
// Scratch: none.
// Repeatability: same bits for any number of threads.
// Error: adamw_error_bound below, per element and step.
// Cost: reads p, g, m, v and writes p, m, v: 28 bytes per parameter in f32, 20 with moments in bf16; 15
// FLOPs.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct AdamwArgs {
  std::span<const OptimizerTensor> tensors = {};  // reads grad; reads and writes param, m, v; writes low
  ConstView learning_rate = {};                   // 1 element
  ConstView step = {};                            // 1 element of i64; Requires: >= 1
  ConstView clip_coefficient = {};                // optional, 1 element: absent means 1
  ConstView finite = {};                          // optional, 1 element: 0 means update nothing
  double beta1 = 0.9;                             // Requires: in [0, 1)
  double beta2 = 0.999;                           // Requires: in [0, 1)
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  // Of bf16 parameters without a remainder, and of v in bf16.
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;
};

// What one call multiplies with, in double.
struct AdamwCoefficients {
  double decay;             // lr * weight_decay
  double step_size;         // lr / bc1
  double inverse_sqrt_bc2;  // 1 / sqrt(bc2)
  double one_minus_beta1;
  double one_minus_beta2;
  double clip;
};
AdamwCoefficients adamw_coefficients(const AdamwArgs& args);

// Whether the call updates anything: finite is absent or not 0.
bool update_allowed(ConstView finite);

// Bounds on the absolute error in fp32 of one update of one element from the same starting values, u = 2^-24.
// m and g are the larger of before and after in magnitude, v and denominator (sqrt(v)/sqrt(bc2) + epsilon)
// those after the update.
struct AdamwErrorBound {
  double m, v, param;
};
inline AdamwErrorBound adamw_error_bound(const AdamwCoefficients& c, double p, double m, double v, double g,
                                         double denominator) {
  constexpr double kU = 0x1p-24;
  AdamwErrorBound bound{};
  // clip g, g - m, times 1 - beta1 (itself rounded), plus m: the difference's errors are scaled by 1 - beta1.
  bound.m = kU * (m + 4.0 * c.one_minus_beta1 * (g + m));
  bound.v = kU * (v + 6.0 * c.one_minus_beta2 * (g * g + v));
  // sqrt halves v's relative error; sqrt, scale and its rounding, epsilon and its rounding, division, step
  // size: 7 u.
  const double relative_v = v > 0.0 ? bound.v / v : 0.0;
  const double adam = c.step_size * m / denominator;
  const double adam_error = c.step_size * bound.m / denominator + adam * (0.5 * relative_v + 7.0 * kU);
  bound.param = kU * (p + adam) + adam_error + 3.0 * kU * (c.decay * p + adam);
  return bound;
}

void adamw_ref(const AdamwArgs& args);

// Requires: m and v of every tensor are f32 or bf16.
void adamw_cpu(const AdamwArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 500). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, split or bf16 alone; m and v f32 or bf16; grad f32, bf16 or f16; low bf16 or f16.
// learning_rate, step, clip_coefficient and finite are device memory. A step below 1 is not noticed. Error:
// adamw_error_bound.

void adamw_cuda(const AdamwArgs& args, CudaStream stream);

}  // namespace plimsoll
