// This header states the contract of Adagrad over a list of tensors in one call. A call serves one parameter group, because it has one
// weight decay. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula, per element, with t = step (1 for the first update) and g' = clip_coefficient * g + weight_decay *
// p:
//   v <- v + g'^2        p <- p - lr / (1 + (t - 1) lr_decay) * g' / (sqrt(v) + epsilon)
// Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods" (JMLR 2011), in the form of torch.optim.Adagrad
// with an initial accumulator of 0. If finite is 0, nothing is updated.
// Types: the references take any floating type. The CPU kernels take sums in f32, gradients in f32, bf16 or
// f16, and parameters in f32, or stored only in bf16 and then rounded stochastically (tensor_list.h). learning_rate,
// clip_coefficient and finite are 1 element of f32 or f64; step is 1 element of i64.
// Accumulation: each element by itself in fp32 with fused multiply-add. The rate of the step is computed in
// double and rounded to fp32 once.
// Special values: without `finite`, a NaN gradient makes its element NaN. With epsilon 0, an element whose
// gradient was always 0 becomes NaN, as in PyTorch.
// Aliasing: no tensor overlaps another. Scratch: none.
// Repeatability: the same bits for any number of threads.
// Error: adagrad_error_bound below, per element and step.
// Cost: reads p, g, v and writes p, v: 20 bytes per parameter in f32; 9 FLOPs.
//
// The sums v of the formula are stored in the fields `m` of the tensors.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct AdagradArgs {
  // The update reads grad, reads and writes param and m, and writes low (the 16-bit copy of param) if it is present.
  std::span<const OptimizerTensor> tensors = {};
  ConstView learning_rate = {};     // one element: the learning rate of this step
  ConstView step = {};              // one i64 element: the step number, 1 for the first update
  ConstView clip_coefficient = {};  // optional, one element: the factor of all gradients (1 if absent)
  ConstView finite = {};            // optional, one element: the finite flag; if it is 0, nothing is updated
  double lr_decay = 0.0;
  double epsilon = 1e-10;
  double weight_decay = 0.0;
  // Parts of the key from which the random numbers for rounding parameters that are stored only in bf16 are derived (noise_of() in
  // tensor_list.h): the seed, and the site of the first tensor of the list. A site is a number that differs between parameters.
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;

  // Calls read(name, field) for each constant of the update. `name` is the attribute in which the graph's op stores the constant.
  template <typename Read>
  void read_constants(const Read& read) {
    read("lr_decay", lr_decay);
    read("epsilon", epsilon);
    read("weight_decay", weight_decay);
  }
};

// Bounds on the absolute error of one update of one element in fp32 that starts from the same values as the exact update, with u = 2^-24. p
// is the parameter before the update, gradient is clip |g| + weight_decay |p|, v is the sum of squares after the update, and rate is the
// rate of the step.
struct AdagradErrorBound {
  double v, param;
};
inline AdagradErrorBound adagrad_error_bound(double rate, double epsilon, double p, double gradient,
                                             double v) {
  constexpr double kU = 0x1p-24;
  // g' is a sum of two products, clip * g and weight_decay * p. The coefficient and the product of each are rounded, and then the sum is
  // rounded.
  const double g_error = 4.0 * kU * gradient;
  AdagradErrorBound bound{};
  bound.v = kU * v + 2.0 * gradient * g_error + g_error * g_error;
  // The square root halves the relative error of v. The rounding errors of the root, of epsilon, of the sum with epsilon, of the division
  // and of the rate add 6 u.
  const double denominator = std::sqrt(v) + epsilon;
  const double relative_v = v > 0.0 ? bound.v / v : 0.0;
  const double step = rate * gradient / denominator;
  bound.param =
      kU * (std::fabs(p) + step) + rate * g_error / denominator + step * (0.5 * relative_v + 6.0 * kU);
  return bound;
}

// Returns the rate lr / (1 + (t - 1) lr_decay) of the step. Errors: kInternal for a step below 1.
double adagrad_rate(const AdagradArgs& args);

void adagrad_ref(const AdagradArgs& args);

// Updates all tensors on a CPU. Requires: m of every tensor is f32.
void adagrad_cpu(const AdagradArgs& args);

// Updates all tensors in one launch on an NVIDIA GPU, or in several if there are more than about 500.
// kernels/element_wise/add.h states the rules for all CUDA kernels. param is f32, or is stored only in
// bf16; m is f32; grad is f32, bf16 or f16; low is bf16 or f16. The kernel does not check that step is at
// least 1.
void adagrad_cuda(const AdagradArgs& args, CudaStream stream);

// Returns the bounds of adagrad_error_bound() for a sum of squares that is stored in 8 bits. The update reads the old sum as the number
// that its code represents times absmax, the largest magnitude of the quantization block (eight_bit.h). Rounding this product adds an error
// of u v_old, and the square root halves the relative error.
inline AdagradErrorBound adagrad_8bit_error_bound(double rate, double epsilon, double p, double gradient,
                                                  double v_old, double v) {
  constexpr double kU = 0x1p-24;
  AdagradErrorBound bound = adagrad_error_bound(rate, epsilon, p, gradient, v);
  bound.v += kU * v_old;
  if (v > 0.0) bound.param += rate * gradient / (std::sqrt(v) + epsilon) * 0.5 * kU * v_old / v;
  return bound;
}

// Adagrad with its sums in 8 bits: the same formula, with states as eight_bit.h defines them. The codes are signed, as in bitsandbytes,
// although no sum is negative. A sum below 2.75e-7 of the largest one of its quantization block is rounded to 0, and a sum does not change
// if it grows by less than half of the distance between two numbers that codes represent. Unlike bitsandbytes' Adagrad8bit, it supports
// lr_decay.
// Error: adagrad_8bit_error_bound. Cost: reads p, g and codes, writes p and codes: 14 bytes per parameter and 8 per quantization block;
// about 40 operations.
void adagrad_8bit_ref(const AdagradArgs& args);
void adagrad_8bit_cpu(const AdagradArgs& args);
void adagrad_8bit_cuda(const AdagradArgs& args, CudaStream stream);

}  // namespace plimsoll
