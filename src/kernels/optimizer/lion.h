// This header states the contract of Lion over a list of tensors in one call. A call serves one parameter group, because it has one weight
// decay. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula, per element, with g' = clip_coefficient * g:
//   c = beta1 m + (1 - beta1) g'
//   p <- p - lr (sign(c) + weight_decay p)
//   m <- m + (1 - beta2) (g' - m)
// Source: Chen et al., "Symbolic Discovery of Optimization Algorithms" (arXiv 2302.06675), algorithm 2. The
// sign of 0 is 0. If finite is 0, nothing is updated.
// Types: the references take any floating type. The CPU kernels take m in f32, gradients in f32, bf16 or f16,
// and parameters in f32, or stored only in bf16 and then rounded stochastically (tensor_list.h). learning_rate,
// clip_coefficient and finite are 1 element of f32 or f64.
// Accumulation: each element by itself in fp32 with fused multiply-add. lr, lr weight_decay, beta1, 1 - beta1
// and 1 - beta2 are computed in double and rounded to fp32 once.
// Special values: without `finite`, a NaN gradient makes its element NaN.
// Aliasing: no tensor overlaps another. Scratch: none.
// Repeatability: the same bits for any number of threads.
// Error: lion_error_bound below, per element and step. If c is within its own error of 0, its sign is
// arbitrary, and p may differ by twice the step.
// Cost: reads p, g, m and writes p, m: 20 bytes per parameter in f32; 9 FLOPs.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct LionArgs {
  // The update reads grad, reads and writes param and m, and writes low (the 16-bit copy of param) if it is present.
  std::span<const OptimizerTensor> tensors = {};
  ConstView learning_rate = {};     // one element: the learning rate of this step
  ConstView step = {};              // one i64 element: the step number, needed only for stochastic rounding
  ConstView clip_coefficient = {};  // optional, one element: the factor of all gradients (1 if absent)
  ConstView finite = {};            // optional, one element: the finite flag; if it is 0, nothing is updated
  double beta1 = 0.9;               // beta1 must be in [0, 1)
  double beta2 = 0.99;              // beta2 must be in [0, 1)
  double weight_decay = 0.0;
  // Parts of the key from which the random numbers for rounding parameters that are stored only in bf16 are derived (noise_of() in
  // tensor_list.h): the seed, and the site of the first tensor of the list. A site is a number that differs between parameters.
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;

  // Calls read(name, field) for each constant of the update. `name` is the attribute in which the graph's op stores the constant.
  template <typename Read>
  void read_constants(const Read& read) {
    read("beta1", beta1);
    read("beta2", beta2);
    read("weight_decay", weight_decay);
  }
};

// The coefficients of one update, in double. lion_coefficients() fails with kInternal for a beta outside [0, 1).
struct LionCoefficients {
  double lr, decay, beta1, beta2, clip;
};
LionCoefficients lion_coefficients(const LionArgs& args);

// Bounds on the absolute error of one update of one element in fp32 that starts from the same values as the exact update, with u = 2^-24.
// p, m and g are the values before the update.
struct LionErrorBound {
  double m, param;
};
inline LionErrorBound lion_error_bound(const LionCoefficients& k, double p, double m, double g) {
  constexpr double kU = 0x1p-24;
  const double gradient = std::fabs(k.clip * g);
  LionErrorBound bound{};
  // Counts the rounding errors of the new momentum: those of clip g, of its difference from m, of the product with 1 - beta2 (which is
  // rounded itself), and of the sum.
  bound.m = kU * (std::fabs(m) + 5.0 * (1.0 - k.beta2) * (gradient + std::fabs(m)));
  // c is a sum of two products (see the formula above). In each of them the coefficient and the product are rounded, and in the second one
  // also the clip coefficient and the clipped gradient. Then the sum is rounded.
  const double c = k.beta1 * m + (1.0 - k.beta1) * k.clip * g;
  const double c_error = kU * (3.0 * k.beta1 * std::fabs(m) + 5.0 * (1.0 - k.beta1) * gradient);
  const double step = k.lr + k.decay * std::fabs(p);
  bound.param = kU * (std::fabs(p) + step) + 3.0 * kU * step;
  if (std::fabs(c) <= c_error) bound.param += 2.0 * k.lr;
  return bound;
}

void lion_ref(const LionArgs& args);

// Updates all tensors on a CPU. Requires: m of every tensor is f32.
void lion_cpu(const LionArgs& args);

// Updates all tensors in one launch on an NVIDIA GPU, or in several if there are more than about 500.
// kernels/element_wise/add.h states the rules for all CUDA kernels. param is f32, or is stored only in
// bf16; m is f32; grad is f32, bf16 or f16; low is bf16 or f16.
void lion_cuda(const LionArgs& args, CudaStream stream);

// Lion with its momentum in 8 bits: the same formula, with states as eight_bit.h defines them. Error: lion_error_bound. Cost: reads p, g
// and codes, writes p and codes: 14 bytes per parameter and 8 per quantization block; about 35 operations.
void lion_8bit_ref(const LionArgs& args);
void lion_8bit_cpu(const LionArgs& args);
void lion_8bit_cuda(const LionArgs& args, CudaStream stream);

}  // namespace plimsoll
