// SGD with its momentum in 8 bits over a list of tensors in one call: contract. One call per parameter group.
// Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula: blocks of 256 elements; m of a block becomes numbers (eight_bit.h, signed), all elements are
// updated by the formula of sgd.h, and only then is m rounded back to 8 bits. At step 1 what m holds has no
// effect. Source: Dettmers et al. (arXiv 2110.02861), as bitsandbytes' SGD8bit does it on a CPU; it has no
// Nesterov, which is that of sgd.h.
// Nothing is updated when finite is 0. Types: references take any floating type for param, grad and absmax;
// CPU kernels f32, gradients in 16 bits too and parameters in bf16 alone, which are rounded stochastically
// (tensor_list.h). Codes are u8. Scalars as in sgd.h. Accumulation: that of sgd.h; a number is a product of
// two fp32 numbers, rounded once. Special values: finite must be given where gradients may be NaN; a NaN in a
// momentum has no code. Aliasing: no tensor overlaps another. Scratch: none (3 KiB of stack per thread).
// Repeatability: same bits for any number of threads.
// Error: sgd_8bit_error_bound per element for param and for the momentum before it is rounded back; absmax is
// off by at most the largest bound of its block; a code is off by at most one, and only where the quotient is
// within eight_bit_quotient_error of the limit between two codes. Cost: reads p, g and codes, writes p and
// codes: 14 bytes per parameter, and 8 per block; some 35 operations.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {

// sgd_error_bound from a momentum that is a product, rounded once: u |m| more, times what it counts for.
inline SgdErrorBound sgd_8bit_error_bound(double lr, double momentum, double weight_decay, double p, double m,
                                          double g) {
  constexpr double kU = 0x1p-24;
  SgdErrorBound bound = sgd_error_bound(lr, momentum, weight_decay, p, m, g);
  bound.m += kU * momentum * m;
  bound.param += kU * lr * momentum * m;
  return bound;
}

// Requires: momentum > 0; of every tensor, m is codes of u8 and m_absmax has eight_bit_blocks(count)
// elements.
void sgd_8bit_ref(const SgdArgs& args);

// Requires: m_absmax of every tensor is f32.
void sgd_8bit_cpu(const SgdArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 400). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone, of all tensors alike; absmax f32; grad f32, bf16 or f16; low bf16 or
// f16. Scalars are device memory. Error: that of sgd_8bit.h.

void sgd_8bit_cuda(const SgdArgs& args, CudaStream stream);

}  // namespace plimsoll
