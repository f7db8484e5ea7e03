// Lion with its momentum in 8 bits over a list of tensors in one call: contract. One call per parameter
// group. Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula: blocks of 256 elements; m of a block becomes numbers (eight_bit.h, signed), all elements are
// updated by the formula of lion.h, and only then is m rounded back to 8 bits. Source: Dettmers et al. (arXiv
// 2110.02861) for the state, Chen et al. (arXiv 2302.06675) for the update, as bitsandbytes does it on a CPU.
// Nothing is updated when finite is 0. Types: references take any floating type for param, grad and absmax;
// CPU kernels f32, gradients in 16 bits too and parameters in bf16 alone, which are rounded stochastically
// (tensor_list.h). Codes are u8. Scalars as in lion.h. Accumulation: that of lion.h; a number is a product of
// two fp32 numbers, rounded once. Special values: finite must be given where gradients may be NaN; a NaN in a
// momentum has no code. Aliasing: no tensor overlaps another. Scratch: none (3 KiB of stack per thread).
// Repeatability: same bits for any number of threads.
// Error: lion_error_bound per element for param and for the momentum before it is rounded back; absmax is off
// by at most the largest bound of its block; a code is off by at most one, and only where the quotient is
// within eight_bit_quotient_error of the limit between two codes. Cost: reads p, g and codes, writes p and
// codes: 14 bytes per parameter, and 8 per block; some 35 operations.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/lion.h"

namespace plimsoll {

// Requires of every tensor: m is codes of u8, m_absmax has eight_bit_blocks(count) elements.
void lion_8bit_ref(const LionArgs& args);

// Requires: m_absmax of every tensor is f32.
void lion_8bit_cpu(const LionArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 400). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone, of all tensors alike; absmax f32; grad f32, bf16 or f16; low bf16 or
// f16. Scalars are device memory. Error: that of lion_8bit.h.

void lion_8bit_cuda(const LionArgs& args, CudaStream stream);

}  // namespace plimsoll
