// This header states the contract of the kernels that count the correct predictions of a classifier. Thread-safe: kernels keep no state.
// Views are used only during the call.
//
// Shape letters: B rows, K classes; dense, row-major.
//
// Formula: the number of rows b with label_b >= 0 whose arg max is the label. If several classes have the largest logit,
// the first of them is the arg max, as in torch.argmax on a CPU:
//   correct_b = no k has logits[b,k] > logits[b,label_b], and no k < label_b has logits[b,k] == logits[b,label_b]
// A row whose logit at the label is NaN is not correct; NaNs of other classes are ignored.
// Types: the references and the CUDA kernel take f32, bf16 or f16 (the reference also f64), the CPU kernel f32 or bf16;
// labels i32, of which negative ones are ignored; the count is i32 with 1 element.
// Accumulation: exact. Aliasing: none. Scratch: none. Repeatability: the same number in every run.
// Cost: reads the logits once; 2 BK comparisons.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"

namespace plimsoll {

struct CountCorrectArgs {
  ConstView logits_BK = {};
  ConstView labels_B = {};  // i32; every label must be below num_classes
  View count = {};          // one i32 element: the number of correct predictions
  int64_t num_rows = 0;
  int64_t num_classes = 0;  // number of classes, at least 1
  // kAdd adds the count to the previous value of its destination.
  Accumulate accumulate = Accumulate::kOverwrite;
  // Distance in elements between rows of logits (0 means num_classes); used only on a GPU.
  int64_t row_stride = 0;
};

void count_correct_ref(const CountCorrectArgs& args);
void count_correct_cpu(const CountCorrectArgs& args);

// Counts the correct predictions on an NVIDIA GPU. All views are in device memory.
void count_correct_cuda(const CountCorrectArgs& args, CudaStream stream);

}  // namespace plimsoll
