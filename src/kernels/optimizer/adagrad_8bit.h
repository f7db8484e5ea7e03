// Adagrad with its sums in 8 bits over a list of tensors in one call: contract. One call per parameter group.
// Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula: blocks of 256 elements; the sums of a block become numbers (eight_bit.h, signed although no sum is
// negative, as bitsandbytes has it), all elements are updated by the formula of adagrad.h, and only then are
// the sums rounded back to 8 bits. A sum below 2.75e-7 of the largest of its block is rounded to 0, and one
// that grows by less than half of the spacing of its numbers stays as it was. Source: Dettmers et al. (arXiv
// 2110.02861), as bitsandbytes' Adagrad8bit does it on a CPU; it has no lr_decay, which is that of adagrad.h.
// Nothing is updated when finite is 0. Types: references take any floating type for param, grad and absmax;
// CPU kernels f32, gradients in 16 bits too and parameters in bf16 alone, which are rounded stochastically
// (tensor_list.h). Codes are u8. Scalars as in adagrad.h. Accumulation: that of adagrad.h; a number is a
// product of two fp32 numbers, rounded once. Special values: finite must be given where gradients may be NaN;
// a NaN in a sum has no code. Aliasing: no tensor overlaps another. Scratch: none (3 KiB of stack per
// thread).
// Repeatability: same bits for any number of threads.
// Error: adagrad_8bit_error_bound per element for param and for the sum before it is rounded back; absmax is
// off by at most the largest bound of its block; a code is off by at most one, and only where the quotient is
// within eight_bit_quotient_error of the limit between two codes. Cost: reads p, g and codes, writes p and
// codes: 14 bytes per parameter, and 8 per block; some 40 operations.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll {

// adagrad_error_bound from a sum that is a product, rounded once: u v_old more, of which the root halves the
// relative error.
inline AdagradErrorBound adagrad_8bit_error_bound(double rate, double epsilon, double p, double gradient,
                                                  double v_old, double v) {
  constexpr double kU = 0x1p-24;
  AdagradErrorBound bound = adagrad_error_bound(rate, epsilon, p, gradient, v);
  bound.v += kU * v_old;
  if (v > 0.0) bound.param += rate * gradient / (std::sqrt(v) + epsilon) * 0.5 * kU * v_old / v;
  return bound;
}

// Requires of every tensor: m is codes of u8 of numbers that are not negative, m_absmax has
// eight_bit_blocks(count) elements.
void adagrad_8bit_ref(const AdagradArgs& args);

// Requires: m_absmax of every tensor is f32.
void adagrad_8bit_cpu(const AdagradArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 400). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone, of all tensors alike; absmax f32; grad f32, bf16 or f16; low bf16 or
// f16. Scalars are device memory. Error: that of adagrad_8bit.h.

void adagrad_8bit_cuda(const AdagradArgs& args, CudaStream stream);

}  // namespace plimsoll
