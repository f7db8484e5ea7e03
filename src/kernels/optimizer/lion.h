// Lion over a list of tensors in one call: contract. One call per parameter group (the weight decay is per
// call). Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula, per element, with g' = clip_coefficient * g:
//   c = beta1 m + (1 - beta1) g'
//   p <- p - lr (sign(c) + weight_decay p)
//   m <- m + (1 - beta2) (g' - m)
// Source: Chen et al., "Symbolic Discovery of Optimization Algorithms" (arXiv 2302.06675), algorithm 2. The
// sign of 0 is 0. Nothing is updated when finite is 0.
// Types: references take any floating type; CPU kernels m in f32, gradients of f32, bf16 or f16 and
// parameters in f32 or in bf16 alone, which are rounded stochastically (tensor_list.h). learning_rate,
// clip_coefficient and finite: 1 element of f32 or f64. Accumulation: each element by itself in fp32 with
// fused multiply-add; lr, lr weight_decay, beta1, 1 - beta1 and 1 - beta2 are computed in double and rounded
// to fp32 once. Special values: where finite is absent, a NaN gradient makes its element NaN. Aliasing: no
// tensor overlaps another. Scratch: none. Repeatability: same bits for any number of threads. Error:
// lion_error_bound below, per element and step. Where c is within its own error of 0 its sign may be any, and
// p may be off by twice the step. Cost: reads p, g, m and writes p, m: 20 bytes per parameter in f32; 9
// FLOPs.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct LionArgs {
  std::span<const OptimizerTensor> tensors = {};  // reads grad; reads and writes param and m; writes low
  ConstView learning_rate = {};                   // 1 element
  ConstView step = {};                            // 1 element of i64; of the noise alone
  ConstView clip_coefficient = {};                // optional, 1 element: absent means 1
  ConstView finite = {};                          // optional, 1 element: 0 means update nothing
  double beta1 = 0.9;                             // Requires: in [0, 1)
  double beta2 = 0.99;                            // Requires: in [0, 1)
  double weight_decay = 0.0;
  // Of parameters in bf16 alone (tensor_list.h).
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;
};

// What one call multiplies with, in double. Errors: kInternal for a beta outside [0, 1).
struct LionCoefficients {
  double lr, decay, beta1, beta2, clip;
};
LionCoefficients lion_coefficients(const LionArgs& args);

// Bounds on the absolute error in fp32 of one update of one element from the same starting values, u = 2^-24;
// p, m and g are those before it.
struct LionErrorBound {
  double m, param;
};
inline LionErrorBound lion_error_bound(const LionCoefficients& k, double p, double m, double g) {
  constexpr double kU = 0x1p-24;
  const double gradient = std::fabs(k.clip * g);
  LionErrorBound bound{};
  // clip g, its difference from m, times 1 - beta2 (itself rounded), plus m.
  bound.m = kU * (std::fabs(m) + 5.0 * (1.0 - k.beta2) * (gradient + std::fabs(m)));
  // Either product of c: its coefficient, the clipped gradient, the product and the sum are rounded.
  const double c = k.beta1 * m + (1.0 - k.beta1) * k.clip * g;
  const double c_error = kU * (3.0 * k.beta1 * std::fabs(m) + 5.0 * (1.0 - k.beta1) * gradient);
  const double step = k.lr + k.decay * std::fabs(p);
  bound.param = kU * (std::fabs(p) + step) + 3.0 * kU * step;
  if (std::fabs(c) <= c_error) bound.param += 2.0 * k.lr;
  return bound;
}

void lion_ref(const LionArgs& args);

// Requires: m of every tensor is f32.
void lion_cpu(const LionArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 500). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone; m f32; grad f32, bf16 or f16; low bf16 or f16. learning_rate,
// clip_coefficient and finite are device memory. Error: lion_error_bound.

void lion_cuda(const LionArgs& args, CudaStream stream);

}  // namespace plimsoll
