// This header states the contracts of binary cross-entropy on logits for multi-label classification, forward and backward. Thread-safe:
// kernels keep no state. Views are used only during the call.
//
// Shape letters: B rows, K labels; dense, row-major. Only the first num_real_rows rows contain samples ("real rows"); the others are never
// read, and their gradients are set to 0.
//
// Formula, over real rows:
//   loss = 1/(denominator K) * sum_{b,k} [ max(x,0) - x y + log(1 + exp(-|x|)) ]
//   d_x[b,k] = (sigmoid(x) - y) * d_loss / (denominator K)
// Source: torch.nn.BCEWithLogitsLoss with reduction "mean". The denominator counts the real rows of the whole
// optimizer step. Labels are usually 0 or 1; any real number is allowed.
// Types: references take any floating type; CPU kernels take f32; denominator, loss and d_loss have 1 element
// of f32 or f64.
// Accumulation: each element's term in fp32; fp32 lanes within a block of kBceSumBlock elements of a row,
// then double; rows in a fixed order of at most kLossRowBlocks blocks; one rounding when the loss is stored.
// Special values: a NaN or an infinity in a real row makes the loss NaN or infinite. No finite logit
// overflows.
// Aliasing: d_x may be the same buffer as x.
// Scratch: none.
// Repeatability: the same bits for any number of threads.
// Cost: fwd reads 8BK bytes and takes about 30 BK FLOPs; bwd reads 8BK and writes 4BK bytes and takes about
// 20 BK FLOPs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/nll.h"

namespace plimsoll {

// The number of elements of a row that form a block. The terms of a block are added in fp32, and the sums of the blocks in double.
inline constexpr int64_t kBceSumBlock = 256;

struct BceWithLogitsFwdArgs {
  ConstView x_BK = {};
  ConstView labels_BK = {};
  ConstView denominator = {};  // one positive element, by which the loss is divided
  View loss = {};              // one element: the loss of all rows
  int64_t num_rows = 0;
  int64_t num_real_rows = 0;  // number of real rows, from 0 to num_rows
  int64_t num_classes = 0;
  Accumulate accumulate = Accumulate::kOverwrite;
  // Scratch memory of row_loss_cuda_scratch_bytes(num_rows) bytes; used only by the CUDA kernel.
  View scratch = {};
};

struct BceWithLogitsBwdArgs {
  ConstView x_BK = {};
  ConstView labels_BK = {};
  ConstView denominator = {};  // one element, by which the loss is divided
  ConstView d_loss = {};       // one element: the gradient with respect to the loss
  View d_x_BK = {};
  int64_t num_rows = 0;
  int64_t num_real_rows = 0;
  int64_t num_classes = 0;
};

// Returns a bound on the absolute error of the loss, given the mean of |x| + |x y| + 1 over the real elements. Each term takes at most 6
// roundings of numbers of that size (exp and log1p are within 2 ulp each) and then takes part in at most kBceSumBlock + 3 fp32 additions.
// This maximum occurs if vectors have one lane.
constexpr double bce_with_logits_fwd_error(double mean_magnitude) {
  return 0x1p-24 * (6.0 + static_cast<double>(kBceSumBlock) + 3.0) * mean_magnitude;
}
// Returns a bound on the absolute error of one element of d_x, with scale = |d_loss / (denominator K)|.
constexpr double bce_with_logits_bwd_error(double abs_label, double scale) {
  return 0x1p-24 * 8.0 * (1.0 + abs_label) * scale;
}

void bce_with_logits_fwd_ref(const BceWithLogitsFwdArgs& args);
void bce_with_logits_bwd_ref(const BceWithLogitsBwdArgs& args);

// Compute the loss and the gradient on a CPU. Requires: the [B,K] views are f32.
void bce_with_logits_fwd_cpu(const BceWithLogitsFwdArgs& args);
void bce_with_logits_bwd_cpu(const BceWithLogitsBwdArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. Each [B,K] view is f32, bf16 or f16;
// denominator, loss and d_loss are in device memory and f32 or f64. The number of real rows is read from the one element (i32 or i64) of
// `num_real_rows` in device memory; if that view is null, it is args.num_real_rows.

// Compute the loss and the gradient on a GPU. Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8.
void bce_with_logits_fwd_cuda(const BceWithLogitsFwdArgs& args, ConstView num_real_rows, CudaStream stream);
void bce_with_logits_bwd_cuda(const BceWithLogitsBwdArgs& args, ConstView num_real_rows, CudaStream stream);

}  // namespace plimsoll
