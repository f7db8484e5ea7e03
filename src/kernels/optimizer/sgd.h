// Stochastic gradient descent with optional momentum over a list of tensors in one call: contract. One
// call per parameter group. Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula, per element, with g' = clip_coefficient * g + weight_decay * p:
//   momentum 0: p <- p - lr g', and m is not touched
//   else:       m <- g' at step 1 (m is then not read), momentum * m + g' at later steps;
//               p <- p - lr (nesterov ? g' + momentum * m : m)
// Source: torch.optim.SGD with dampening 0 and maximize off. Nothing is updated when finite is 0.
// Types: references take any floating type; CPU kernels m in f32, gradients of f32, bf16 or f16 and
// parameters in f32 or in bf16 alone, which are rounded stochastically (tensor_list.h). learning_rate,
// clip_coefficient and finite: 1 element of f32 or f64; step: 1 element of i64, needed only with momentum or
// noise. Accumulation: each element by itself in fp32 with fused multiply-add; lr, momentum and weight_decay
// rounded to fp32 once.
// Aliasing: no tensor overlaps another.
// Scratch: none.
// Repeatability: same bits for any number of threads.
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
  // Reads grad; reads and writes param and (with momentum) m; writes low.
  std::span<const OptimizerTensor> tensors = {};
  ConstView learning_rate = {};     // 1 element
  ConstView step = {};              // 1 element of i64, 1 for the first update
  ConstView clip_coefficient = {};  // optional, 1 element: absent means 1
  ConstView finite = {};            // optional, 1 element: 0 means update nothing
  double momentum = 0.0;            // Requires: >= 0
  double weight_decay = 0.0;
  Nesterov nesterov = Nesterov::kOff;  // Requires: off when momentum is 0
  // Of parameters in bf16 alone (tensor_list.h).
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;
};

// Bounds on the absolute error in fp32 of one update from the same starting values; p, m, g are magnitudes
// before it.
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

// Requires: with momentum, m of every tensor is f32.
void sgd_cpu(const SgdArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 500). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone; m f32; grad f32, bf16 or f16; low bf16 or f16. learning_rate, step,
// clip_coefficient and finite are device memory. Error: sgd_error_bound.

void sgd_cuda(const SgdArgs& args, CudaStream stream);

}  // namespace plimsoll
