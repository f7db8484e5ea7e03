// This header states the contract of stochastic gradient descent with optional momentum over a list of tensors in one call. A call
// serves one parameter group, because it has one weight decay. Thread-safe: the kernels keep no state. Views are used only during the
// call.
//
// Formula, per element, with g' = clip_coefficient * g + weight_decay * p:
//   momentum 0: p <- p - lr g', and m is not accessed
//   else:       m <- g' at step 1 (which does not use the old m), momentum * m + g' at later steps;
//               p <- p - lr (nesterov ? g' + momentum * m : m)
// Source: torch.optim.SGD with dampening 0 and maximize off. If finite is 0, nothing is updated.
// Types: the references take any floating type. The CPU kernels take m in f32, gradients in f32, bf16 or f16,
// and parameters in f32, or stored only in bf16 and then rounded stochastically (tensor_list.h). learning_rate,
// clip_coefficient and finite are 1 element of f32 or f64; step is 1 element of i64, needed only with momentum or
// for stochastic rounding.
// Accumulation: each element by itself in fp32 with fused multiply-add. lr, momentum and weight_decay are
// rounded to fp32 once.
// Aliasing: no tensor overlaps another. Scratch: none.
// Repeatability: the same bits for any number of threads.
// Error: sgd_error_bound below, per element and step.
// Cost: with momentum reads p, g, m and writes p, m: 20 bytes per parameter in f32 (12 without); at most 8
// FLOPs.
#pragma once

#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

enum class Nesterov : uint8_t { kOff, kOn };

struct SgdArgs {
  // The update reads grad, reads and writes param and, with momentum, m, and writes low (the 16-bit copy of param) if it is present.
  std::span<const OptimizerTensor> tensors = {};
  ConstView learning_rate = {};     // one element: the learning rate of this step
  ConstView step = {};              // one i64 element: the step number, 1 for the first update
  ConstView clip_coefficient = {};  // optional, one element: the factor of all gradients (1 if absent)
  ConstView finite = {};            // optional, one element: the finite flag; if it is 0, nothing is updated
  double momentum = 0.0;            // the momentum must not be negative
  double weight_decay = 0.0;
  Nesterov nesterov = Nesterov::kOff;  // Nesterov momentum must be off if the momentum is 0
  // Parts of the key from which the random numbers for rounding parameters that are stored only in bf16 are derived (noise_of() in
  // tensor_list.h): the seed, and the site of the first tensor of the list. A site is a number that differs between parameters.
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;

  // Calls read(name, field) for each constant of the update. `name` is the attribute in which the graph's op stores the constant.
  template <typename Read>
  void read_constants(const Read& read) {
    read("momentum", momentum);
    read("weight_decay", weight_decay);
    read("nesterov", nesterov);
  }
};

// Bounds on the absolute error of one update in fp32 that starts from the same values as the exact update. p, m and g are the magnitudes
// before the update.
struct SgdErrorBound {
  double m, param;
};
inline SgdErrorBound sgd_error_bound(double lr, double momentum, double weight_decay, double p, double m,
                                     double g) {
  constexpr double kU = 0x1p-24;
  const double gradient = g + weight_decay * p;
  SgdErrorBound bound{};
  bound.m = kU * 4.0 * (momentum * m + gradient);
  const double direction = (1.0 + momentum) * (momentum * m + gradient) + gradient;
  bound.param = kU * (p + lr * direction) + 8.0 * kU * lr * direction;
  return bound;
}

void sgd_ref(const SgdArgs& args);

// Updates all tensors on a CPU. Requires: with momentum, m of every tensor is f32.
void sgd_cpu(const SgdArgs& args);

// Updates all tensors in one launch on an NVIDIA GPU, or in several if there are more than about 500.
// kernels/element_wise/add.h states the rules for all CUDA kernels. param is f32, or is stored only in
// bf16; m is f32; grad is f32, bf16 or f16; low is bf16 or f16.
void sgd_cuda(const SgdArgs& args, CudaStream stream);

// Returns the bounds of sgd_error_bound() for a momentum that is stored in 8 bits. The update reads the old momentum as the number that its
// code represents times absmax, the largest magnitude of the quantization block (eight_bit.h). Rounding this product adds an error of u
// |m|, which is multiplied by the coefficient of m.
inline SgdErrorBound sgd_8bit_error_bound(double lr, double momentum, double weight_decay, double p, double m,
                                          double g) {
  constexpr double kU = 0x1p-24;
  SgdErrorBound bound = sgd_error_bound(lr, momentum, weight_decay, p, m, g);
  bound.m += kU * momentum * m;
  bound.param += kU * lr * momentum * m;
  return bound;
}

// SGD with its momentum in 8 bits: the same formula, with states as eight_bit.h defines them. Unlike bitsandbytes' SGD8bit, it supports
// Nesterov momentum. Requires: momentum > 0. Error: sgd_8bit_error_bound. Cost: reads p, g and codes, writes p and codes: 14 bytes per
// parameter and 8 per quantization block; about 35 operations.
void sgd_8bit_ref(const SgdArgs& args);
void sgd_8bit_cpu(const SgdArgs& args);
void sgd_8bit_cuda(const SgdArgs& args, CudaStream stream);

}  // namespace plimsoll
