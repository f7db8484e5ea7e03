// Lion over a list of tensors in one call: contract. A call serves one parameter group, because it has one weight
// decay. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula, per element, with g' = clip_coefficient * g:
//   c = beta1 m + (1 - beta1) g'
//   p <- p - lr (sign(c) + weight_decay p)
//   m <- m + (1 - beta2) (g' - m)
// Source: Chen et al., "Symbolic Discovery of Optimization Algorithms" (arXiv 2302.06675), algorithm 2. The
// sign of 0 is 0. If finite is 0, nothing is updated.
// Types: the references take any floating type. The CPU kernels take m in f32, gradients in f32, bf16 or f16,
// and parameters in f32 or in bf16 alone, which are rounded stochastically (tensor_list.h). learning_rate,
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
  // The update reads grad, reads and writes param and m, and writes low.
  std::span<const OptimizerTensor> tensors = {};
  ConstView learning_rate = {};     // 1 element
  ConstView step = {};              // 1 element of i64; needed only for stochastic rounding
  ConstView clip_coefficient = {};  // optional, 1 element: absent means 1
  ConstView finite = {};            // optional, 1 element: 0 means update nothing
  double beta1 = 0.9;               // Requires: in [0, 1)
  double beta2 = 0.99;              // Requires: in [0, 1)
  double weight_decay = 0.0;
  // Selects the random numbers for parameters that are stored in bf16 alone (tensor_list.h).
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;

  // Calls read(name, field) for each constant of the update, with the name of the op's attribute.
  template <typename Read>
  void read_constants(const Read& read) {
    read("beta1", beta1);
    read("beta2", beta2);
    read("weight_decay", weight_decay);
  }
};

// The coefficients of one call, in double. lion_coefficients() fails with kInternal for a beta outside [0, 1).
struct LionCoefficients {
  double lr, decay, beta1, beta2, clip;
};
LionCoefficients lion_coefficients(const LionArgs& args);

// Bounds on the absolute error in fp32 of one update of one element from the same starting values, u = 2^-24;
// p, m and g are the values before it.
struct LionErrorBound {
  double m, param;
};
inline LionErrorBound lion_error_bound(const LionCoefficients& k, double p, double m, double g) {
  constexpr double kU = 0x1p-24;
  const double gradient = std::fabs(k.clip * g);
  LionErrorBound bound{};
  // Counts the roundings of clip g, its difference from m, the product with 1 - beta2 (itself rounded), and the sum.
  bound.m = kU * (std::fabs(m) + 5.0 * (1.0 - k.beta2) * (gradient + std::fabs(m)));
  // For either product in c, the coefficient, the clipped gradient and the product are rounded; then the sum is rounded.
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

// Updates all tensors in one launch on an NVIDIA GPU, or in several if there are more than some 500.
// kernels/element_wise/add.h states the rules for all CUDA kernels. param is f32 or bf16 alone; m is f32;
// grad is f32, bf16 or f16; low is bf16 or f16.
void lion_cuda(const LionArgs& args, CudaStream stream);

// Lion with its momentum in 8 bits: the same formula, with states as eight_bit.h defines them. Error: lion_error_bound. Cost: reads p, g
// and codes, writes p and codes: 14 bytes per parameter and 8 per quantization block; some 35 operations.
void lion_8bit_ref(const LionArgs& args);
void lion_8bit_cpu(const LionArgs& args);
void lion_8bit_cuda(const LionArgs& args, CudaStream stream);

}  // namespace plimsoll
