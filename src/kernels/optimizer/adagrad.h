// Adagrad over a list of tensors in one call: contract. One call per parameter group (the weight decay is per
// call). Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula, per element, with t = step (1 for the first update) and g' = clip_coefficient * g + weight_decay *
// p:
//   v <- v + g'^2        p <- p - lr / (1 + (t - 1) lr_decay) * g' / (sqrt(v) + epsilon)
// Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods" (JMLR 2011), as torch.optim.Adagrad with an
// initial accumulator of 0. Nothing is updated when finite is 0.
// Types: references take any floating type; CPU kernels sums in f32, gradients of f32, bf16 or f16 and
// parameters in f32 or in bf16 alone, which are rounded stochastically (tensor_list.h). learning_rate,
// clip_coefficient and finite: 1 element of f32 or f64; step: 1 element of i64. Accumulation: each element by
// itself in fp32 with fused multiply-add; the rate of the step is computed in double and rounded to fp32
// once. Special values: where finite is absent, a NaN gradient makes its element NaN. With epsilon 0 an
// element whose gradient was always 0 becomes NaN, as torch's does. Aliasing: no tensor overlaps another.
// Scratch: none.
// Repeatability: same bits for any number of threads.
// Error: adagrad_error_bound below, per element and step.
// Cost: reads p, g, v and writes p, v: 20 bytes per parameter in f32; 9 FLOPs.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct AdagradArgs {
  std::span<const OptimizerTensor> tensors = {};  // reads grad; reads and writes param and m; writes low
  ConstView learning_rate = {};                   // 1 element
  ConstView step = {};                            // 1 element of i64; Requires: >= 1
  ConstView clip_coefficient = {};                // optional, 1 element: absent means 1
  ConstView finite = {};                          // optional, 1 element: 0 means update nothing
  double lr_decay = 0.0;
  double epsilon = 1e-10;
  double weight_decay = 0.0;
  // Of parameters in bf16 alone (tensor_list.h).
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;
};

// Bounds on the absolute error in fp32 of one update of one element from the same starting values, u = 2^-24:
// p before it, gradient = clip |g| + weight_decay |p| (magnitudes, nothing cancelled), v after it, rate that
// of the step.
struct AdagradErrorBound {
  double v, param;
};
inline AdagradErrorBound adagrad_error_bound(double rate, double epsilon, double p, double gradient,
                                             double v) {
  constexpr double kU = 0x1p-24;
  // Either term: its coefficient and its product are rounded, then the sum.
  const double g_error = 4.0 * kU * gradient;
  AdagradErrorBound bound{};
  bound.v = kU * v + 2.0 * gradient * g_error + g_error * g_error;
  // The root halves v's relative error; root, epsilon and its rounding, sum, division, rate: 6 u.
  const double denominator = std::sqrt(v) + epsilon;
  const double relative_v = v > 0.0 ? bound.v / v : 0.0;
  const double step = rate * gradient / denominator;
  bound.param =
      kU * (std::fabs(p) + step) + rate * g_error / denominator + step * (0.5 * relative_v + 6.0 * kU);
  return bound;
}

// The rate of the step. Errors: kInternal for a step below 1.
double adagrad_rate(const AdagradArgs& args);

void adagrad_ref(const AdagradArgs& args);

// Requires: m of every tensor is f32.
void adagrad_cpu(const AdagradArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 500). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone; m f32; grad f32, bf16 or f16; low bf16 or f16. learning_rate, step,
// clip_coefficient and finite are device memory. A step below 1 is not noticed. Error: adagrad_error_bound.

void adagrad_cuda(const AdagradArgs& args, CudaStream stream);

}  // namespace plimsoll
