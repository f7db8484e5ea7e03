// The global gradient norm over a list of tensors, whether all of it is finite, and the clipping coefficient:
// contracts. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formulas: norm = sqrt(sum over all tensors and elements of g^2); finite = 1 if every g (and the optional
// loss) is finite, else 0; coefficient = min(1, max_norm / (norm + 1e-6)), or 1 if max_norm is 0 (no
// clipping). If the gradients were scaled by s (loss_scale.h), coefficient = min(1, max_norm / (norm / s +
// 1e-6)) / s. Source: torch.nn.utils.clip_grad_norm_ (clip_grad.py). Types: the references take gradients of
// any floating type, the CPU kernels f32, bf16 and f16. norm, finite and coefficient are 1 element of f32 or
// f64; first_bad is 1 element of i64. Accumulation: all squares and sums are in double. No square of a finite
// fp32 overflows, and the rounding of the reference is larger. Lanes are added within a grain of kTensorGrain
// elements of one tensor, grains in order within a task, and tasks in order (tensor_list.h). Special values:
// any NaN or infinity gives norm NaN or infinity, finite 0, and first_bad = the index in the list of the
// first tensor that contains one (-1: none, or only the loss). Finding that index costs a second pass, which
// is made only in this case. Aliasing: outputs overlap no operand. Scratch: none (2 KiB of stack).
// Repeatability: the same bits for any number of threads. Error against the reference:
// square_sum_error(elements) relative (tensor_list.h), plus 2^-24 if stored as f32. Cost: reads 4 bytes per
// element of f32; 2 FLOPs per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/optimizer_catalog.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct GlobalNormArgs {
  std::span<const OptimizerTensor> tensors = {};  // the kernel reads only grad and count
  ConstView loss = {};                            // optional, 1 element: `finite` covers it as well
  View norm = {};                                 // 1 element
  View finite = {};                               // optional, 1 element: 1.0 or 0.0
  View first_bad = {};                            // optional, 1 element of i64
  View scratch = {};                              // CUDA only: kGlobalNormCudaScratchBytes
};

struct ClipCoefficientArgs {
  ConstView norm = {};    // 1 element
  View coefficient = {};  // 1 element; NaN if the norm is NaN
  double max_norm = 0;    // Requires: >= 0; 0 turns clipping off
  ConstView scale = {};   // optional, 1 element: the factor of the gradients; Requires: > 0
};

void global_norm_ref(const GlobalNormArgs& args);
void clip_coefficient_ref(const ClipCoefficientArgs& args);

void global_norm_cpu(const GlobalNormArgs& args);
// Computes the coefficient on a CPU by calling the reference, because it is only one element in double.
void clip_coefficient_cpu(const ClipCoefficientArgs& args);

// The functions below run on an NVIDIA GPU, without synchronization with the host. kernels/element_wise/add.h
// states the rules for all CUDA kernels. Gradients are f32, bf16 or f16; loss, norm, finite, first_bad and
// coefficient are in device memory.
//
// Accumulation: squares of eight adjacent elements in fp32 if they neither overflow nor underflow, else in
// double; all other sums in double. Error of the norm against the reference: global_norm_cuda_error relative,
// plus 2^-24 if stored as f32.

// Returns the bound of the norm's relative error: eight roundings of the squares and their fp32 sum, halved by the square root, and the
// difference of the sums in double.
constexpr double global_norm_cuda_error(int64_t n) {
  return 0.5 * (8.0 * 0x1p-24 + square_sum_error(n));
}

// Computes the norm on a GPU. Scratch: kGlobalNormCudaScratchBytes, aligned to 16.
void global_norm_cuda(const GlobalNormArgs& args, CudaStream stream);
void clip_coefficient_cuda(const ClipCoefficientArgs& args, CudaStream stream);

}  // namespace plimsoll
