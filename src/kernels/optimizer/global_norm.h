// This header states the contracts of the norm of the gradients of a list of tensors, the flag that says whether all of
// them are finite, and the clipping coefficient. Thread-safe: the kernels keep no state. Views are used only during the
// call.
//
// Formulas: norm = sqrt(sum over all tensors and elements of g^2); finite = 1 if every g (and the optional
// loss) is finite, else 0; coefficient = min(1, max_norm / (norm + 1e-6)), or 1 if max_norm is 0 (no
// clipping). If the gradients were scaled by s (loss_scale.h), coefficient = min(1, max_norm / (norm / s +
// 1e-6)) / s. Source: torch.nn.utils.clip_grad_norm_ (clip_grad.py). Types: the references take gradients of
// any floating type, the CPU kernels f32, bf16 and f16. norm, finite and coefficient are 1 element of f32 or
// f64; first_bad is 1 element of i64. Accumulation: all squares and sums are in double, in which no square of a finite fp32 number
// overflows. The reference has larger rounding errors, because it adds the squares in sequence. Sums are formed by vector lanes
// within a grain of kTensorGrain elements of one tensor; the sums of the grains are added in order within a task, and those
// of the tasks in order (tensor_list.h). Special values: any NaN or infinity gives norm NaN or infinity,
// finite 0, and first_bad = the index in the list of the first tensor that contains one (-1: none, or only
// the loss). Finding that index costs a second pass, which is made only in this case. Aliasing: outputs
// overlap no operand. Scratch: none (2 KiB of stack).
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
  std::span<const OptimizerTensor> tensors = {};  // list of tensors, of which only the gradients are read
  ConstView loss = {};  // optional, one element: if the loss is not finite, the finite flag is 0 as well
  View norm = {};       // one element: the norm of all gradients
  View finite = {};     // optional, one element: 1 if every gradient is finite, otherwise 0
  View first_bad = {};  // optional, one i64 element: index of the first tensor that is not finite, or -1
  View scratch = {};    // scratch memory of kGlobalNormCudaScratchBytes bytes; used only by the CUDA kernel
};

struct ClipCoefficientArgs {
  ConstView norm = {};    // one element: the norm of all gradients
  View coefficient = {};  // one element: the clipping coefficient, which is NaN if the norm is NaN
  double max_norm = 0;    // the largest norm after clipping, not negative; 0 turns clipping off
  // Optional, one element: the positive loss scale by which the gradients were multiplied.
  ConstView scale = {};
};

void global_norm_ref(const GlobalNormArgs& args);
void clip_coefficient_ref(const ClipCoefficientArgs& args);

void global_norm_cpu(const GlobalNormArgs& args);
// Computes the clipping coefficient on a CPU. Calls the reference, because this is a computation with a few numbers in double.
void clip_coefficient_cpu(const ClipCoefficientArgs& args);

// The functions below run on an NVIDIA GPU, without synchronization with the host. kernels/element_wise/add.h
// states the rules for all CUDA kernels. Gradients are f32, bf16 or f16; loss, norm, finite, first_bad and
// coefficient are in device memory.
//
// Accumulation: squares of eight adjacent elements in fp32 if they neither overflow nor underflow, else in
// double; all other sums in double. Error of the norm against the reference: global_norm_cuda_error relative,
// plus 2^-24 if stored as f32.

// Returns the bound on the relative error of the norm: eight roundings of the squares and of their fp32 sum, halved by the square root, and
// the difference between the double-precision sums of the kernel and of the reference.
constexpr double global_norm_cuda_error(int64_t n) {
  return 0.5 * (8.0 * 0x1p-24 + square_sum_error(n));
}

// Computes the norm of the gradients on a GPU. Scratch: kGlobalNormCudaScratchBytes, aligned to 16.
void global_norm_cuda(const GlobalNormArgs& args, CudaStream stream);
void clip_coefficient_cuda(const ClipCoefficientArgs& args, CudaStream stream);

}  // namespace plimsoll
