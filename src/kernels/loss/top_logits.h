// This header states the contract of the kernels that find the largest logits of each row and the logarithm of the sum of all exponentials,
// from which a language model's next token is selected. Thread-safe: kernels keep no state. Views are used only during the call.
//
// Shape letters: B rows, V classes, K = k; dense, row-major.
//
//   values[b, i], ids[b, i] the i-th largest logit of row b and its class; of equal logits, the one with the smaller class comes first
//   log_sum[b]                log(sum over v of exp(logits[b, v])), computed relative to the largest logit
//
// NaN logits are not selected, and log_sum is NaN if a logit is NaN or +infinity. Logits of -infinity are not selected either, and log_sum
// is -infinity if all logits are. If fewer than K logits are selected, the remaining entries of `values` are -infinity and those of `ids`
// are 0.
//
// Types: the references and the CUDA kernel take logits of f32, bf16 or f16 (the reference also f64), the CPU kernel f32
// or bf16; values f32 (the reference also f64), ids i32, log_sum f64. Accumulation: in double; on a GPU exponentials are in
// fp32. Error of log_sum: softmax_sum_error(V) of softmax.h on a GPU, 2^-50 V on a CPU. values and ids are exact, but on a GPU the value of
// -0 is 0. Aliasing: none. Scratch: none. Repeatability: the same bits in every run. Cost: reads the logits once, B V exponentials.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

struct TopLogitsArgs {
  ConstView logits_BV = {};
  View values_BK = {};
  View ids_BK = {};
  View log_sum_B = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;  // number of classes, at least k
  int64_t k = 1;            // number of logits to select per row, from 1 to kMaxTopLogits
};

void top_logits_ref(const TopLogitsArgs& args);
void top_logits_cpu(const TopLogitsArgs& args);
// Selects the largest logits on an NVIDIA GPU. All views are in device memory.
void top_logits_cuda(const TopLogitsArgs& args, CudaStream stream);

}  // namespace plimsoll
