// AdamW with both moments in 8 bits over a list of tensors in one call: contract. One call per parameter
// group. Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula: blocks of 256 elements; m and v of a block become numbers (eight_bit.h; m signed, v unsigned), all
// elements are updated by the formula of adamw.h, with the moments as they then are, and only then are the
// moments rounded back to 8 bits.
// Source: Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (arXiv 2110.02861), as bitsandbytes
// does it on a CPU. Nothing is updated when finite is 0.
// Types: references take any floating type for param, grad and absmax; CPU kernels f32, gradients in 16 bits
// too and parameters in bf16 alone, which are rounded stochastically (tensor_list.h). Codes are u8. Scalars
// as in adamw.h. Accumulation: that of adamw.h; a number is a product of two fp32 numbers, rounded once.
// Special values: finite must be given where gradients may be NaN; a NaN in a moment has no code.
// Aliasing: no tensor overlaps another.
// Scratch: none (4 KiB of stack per thread).
// Repeatability: same bits for any number of threads.
// Error: adamw_error_bound per element for param and for the moments before they are rounded back; absmax is
// off by at most the largest bound of its block; a code is off by at most one, and only where the quotient is
// within eight_bit_quotient_error of the limit between two codes. Cost: reads p, g and both codes, writes p
// and both codes: 16 bytes per parameter, and 16 per block; some 60 operations.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll {

// Requires of every tensor: m and v are codes of u8, m_absmax and v_absmax have eight_bit_blocks(count)
// elements.
void adamw_8bit_ref(const AdamwArgs& args);

// Requires: m_absmax and v_absmax of every tensor are f32.
void adamw_8bit_cpu(const AdamwArgs& args);

// The function below runs on an NVIDIA GPU and updates all tensors in one launch (in several where there are
// more than the launch's parameters hold, some 400). kernels/element_wise/add.h states the rules for all CUDA
// kernels. param is f32, or bf16 alone, of all tensors alike; absmax f32; grad f32, bf16 or f16; low bf16 or
// f16. Scalars are device memory. Error: that of adamw_8bit.h.

void adamw_8bit_cuda(const AdamwArgs& args, CudaStream stream);

}  // namespace plimsoll
