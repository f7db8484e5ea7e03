// This header states the contract of AdamW over a list of tensors in one call. A call serves one parameter group, because it has one weight
// decay. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula, per element, with g' = clip_coefficient * g, t = step (1 for the first update), bc1 = 1 -
// beta1^t, bc2 = 1 - beta2^t:
//   m <- m + (1 - beta1) (g' - m)          v <- v + (1 - beta2) (g'^2 - v)
//   p <- p - lr weight_decay p - (lr / bc1) m / (sqrt(v) / sqrt(bc2) + epsilon)
// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (ICLR 2019), algorithm 2, in the
// order of operations of torch.optim.AdamW (amsgrad and maximize off). If finite is 0, nothing is updated.
// Types: the references take any floating type. The CPU kernels take moments in f32 or bf16 (independently),
// gradients in f32, bf16 or f16, and parameters in f32, split into two 16-bit halves (tensor_list.h), or only in
// bf16. learning_rate, clip_coefficient and finite are 1 element of f32 or f64; step is 1 element of i64.
// Rounding to bf16: the update is computed in fp32 from the stored values, and the weight is updated with the
// moments before they are rounded. m is rounded to nearest, ties to even: a step changes it by 1 - beta1 of its
// distance to g, which is far more than the spacing of bf16 numbers (2^-8). A step changes v, and a parameter that
// is stored only in bf16, by less than half of this spacing. Rounding to nearest would therefore never change
// them, so they are rounded by round_stochastically (base/split_f32.h). The random number for element i of tensor
// k is random_half({noise_seed, step, noise_site + k}, first + i) with the tensor's `first`: a pure function of
// step and element. The random numbers for v have another key (noise_of_second_moment). Accumulation: lr
// weight_decay, lr/bc1, 1/sqrt(bc2) and 1 - beta are computed in double once per call and rounded to fp32 once.
// The decay and the Adam term are added before they are subtracted from p, so that p is rounded once per update.
// PyTorch multiplies p by a rounded 1 - lr weight_decay, which loses most digits of a small decay. Special values:
// without `finite`, a NaN gradient makes its element NaN. Aliasing: no tensor overlaps another. Scratch: none.
// Repeatability: the same bits for any number of threads. Error: adamw_error_bound below, per element and step.
// Cost: reads p, g, m, v and writes p, m, v: 28 bytes per parameter in f32, 20 with moments in bf16; 15 FLOPs.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct AdamwArgs {
  // The update reads grad, reads and writes param, m and v, and writes low (the 16-bit copy of param) if it is present.
  std::span<const OptimizerTensor> tensors = {};
  ConstView learning_rate = {};     // one element: the learning rate of this step
  ConstView step = {};              // one i64 element: the step number, 1 for the first update
  ConstView clip_coefficient = {};  // optional, one element: the factor of all gradients (1 if absent)
  ConstView finite = {};            // optional, one element: the finite flag; if it is 0, nothing is updated
  double beta1 = 0.9;               // beta1 must be in [0, 1)
  double beta2 = 0.999;             // beta2 must be in [0, 1)
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  // Parts of the key from which the random numbers for rounding v in bf16, and parameters that are stored only in bf16, are derived
  // (noise_of() in tensor_list.h): the seed, and the site of the first tensor of the list. A site is a number that differs between
  // parameters.
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;

  // Calls read(name, field) for each constant of the update. `name` is the attribute in which the graph's op stores the constant.
  template <typename Read>
  void read_constants(const Read& read) {
    read("beta1", beta1);
    read("beta2", beta2);
    read("epsilon", epsilon);
    read("weight_decay", weight_decay);
  }
};

// The coefficients of one update, in double. adamw_coefficients() fails with kInternal for a step below 1 or a beta outside [0, 1).
struct AdamwCoefficients {
  double decay;             // the coefficient lr * weight_decay of the formula
  double step_size;         // the coefficient lr / bc1 of the formula
  double inverse_sqrt_bc2;  // the coefficient 1 / sqrt(bc2) of the formula
  double one_minus_beta1;
  double one_minus_beta2;
  double clip;
};
AdamwCoefficients adamw_coefficients(const AdamwArgs& args);

// Bounds on the absolute error of one update of one element in fp32 that starts from the same values as the exact update, with u = 2^-24. m
// and g are the larger of the magnitudes before and after the update. v and denominator (sqrt(v)/sqrt(bc2) + epsilon) are the values after
// the update.
struct AdamwErrorBound {
  double m, v, param;
};
inline AdamwErrorBound adamw_error_bound(const AdamwCoefficients& c, double p, double m, double v, double g,
                                         double denominator) {
  constexpr double kU = 0x1p-24;
  AdamwErrorBound bound{};
  // Counts the rounding errors of clip g, of the difference g' - m, of its product with 1 - beta1 (which is rounded itself), and of the sum
  // with m. The factor 1 - beta1 scales the errors of the difference.
  bound.m = kU * (m + 4.0 * c.one_minus_beta1 * (g + m));
  bound.v = kU * (v + 6.0 * c.one_minus_beta2 * (g * g + v));
  // The square root halves the relative error of v. The rounding errors of the root, of 1 / sqrt(bc2) and its product, of epsilon and its
  // sum, of the division and of the step size add 7 u.
  const double relative_v = v > 0.0 ? bound.v / v : 0.0;
  const double adam = c.step_size * m / denominator;
  const double adam_error = c.step_size * bound.m / denominator + adam * (0.5 * relative_v + 7.0 * kU);
  bound.param = kU * (p + adam) + adam_error + 3.0 * kU * (c.decay * p + adam);
  return bound;
}

void adamw_ref(const AdamwArgs& args);

// Updates all tensors on a CPU. Requires: m and v of every tensor are f32 or bf16.
void adamw_cpu(const AdamwArgs& args);

// Updates all tensors in one launch on an NVIDIA GPU, or in several if there are more than about 500.
// kernels/element_wise/add.h states the rules for all CUDA kernels. param is f32, split into two halves
// (tensor_list.h), or stored only in bf16; m and v are f32 or bf16; grad is f32, bf16 or f16; low is bf16 or
// f16. The kernel does not check that step is at least 1.
void adamw_cuda(const AdamwArgs& args, CudaStream stream);

// AdamW with both moments in 8 bits: the same formula, with states as eight_bit.h defines them, m signed and v unsigned. Error:
// adamw_error_bound. Cost: reads p, g and both codes, writes p and both codes: 16 bytes per parameter and 16 per quantization block;
// about 60 operations.
void adamw_8bit_ref(const AdamwArgs& args);
void adamw_8bit_cpu(const AdamwArgs& args);
void adamw_8bit_cuda(const AdamwArgs& args, CudaStream stream);

}  // namespace plimsoll
