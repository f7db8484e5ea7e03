// This header states the contracts of the fused softmax cross-entropy loss of a classifier, forward and backward. Its result equals that of
// log_softmax (softmax.h) followed by nll (nll.h). Of the tensors of shape [B,K], only the logits are kept between forward and backward.
// Thread-safe: kernels keep no state. Views are used only during the call.
//
// Shape letters: B rows, K classes; dense, row-major.
//
// Formula, with e = label_smoothing, c = z_coefficient, log p = log_softmax(logits) and log Z = log sum_k exp(logits[b,k]), over
// rows whose label is not negative:
//   row_loss_b = -(1-e) log p[b, label_b] - e/K * sum_k log p[b,k] + c log(Z)^2
//   loss       = sum_b row_loss_b / denominator
//   z_loss     = sum_b c log(Z)^2 / denominator, the part of the loss that keeps log Z near 0
//   d_logits[b,k] = (p[b,k] (1 + 2 c log Z) - (1-e) [k == label_b] - e/K) * d_loss / denominator
// A row with a negative label (by convention -100, which unused rows after the last token also have) contributes 0:
// its logits are never read, and its row_loss and d_logits are 0.
// Source: torch.nn.functional.cross_entropy(ignore_index=-100); for e > 0 transformers' LabelSmoother; for c > 0 the z-loss of
// PaLM (Chowdhery et al., arXiv 2204.02311, section 5). The
// denominator is the number of real samples (or tokens) of the whole optimizer step, which makes gradient
// accumulation exact.
// Types: references take any floating type; CPU kernels take f32 for logits, row_loss and d_logits; labels
// i32; denominator, loss and d_loss have 1 element of f32 or f64.
// Accumulation: the sum of exponentials as in softmax.h; a row's loss and the sum over rows in double, rows
// in a fixed order of at most kLossRowBlocks blocks (nll.h); the loss is rounded once, when it is stored.
// Special values: as in softmax.h; a row whose logits contain a NaN or +inf makes the loss NaN. Finite logits
// of any size give a finite loss of up to about 2 FLT_MAX in double; above FLT_MAX it becomes infinite if it is stored in fp32.
// Aliasing: d_logits may be the same buffer as logits.
// With c = 0 the results have the bits of a loss without the z-loss.
// Scratch: none.
// Repeatability: the same bits for any number of threads; rows are never split.
// Cost: fwd reads 4BK bytes, bwd reads 4BK and writes 4BK bytes; about 20 BK FLOPs each.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"

namespace plimsoll {

struct SoftmaxCrossEntropyFwdArgs {
  ConstView logits_BK = {};
  ConstView labels_B = {};     // i32; every label must be below num_classes
  ConstView denominator = {};  // one positive element, by which the loss is divided
  View loss = {};              // one element: the loss of all rows
  View row_loss_B = {};        // optional: the loss of each row, not divided by the denominator
  int64_t num_rows = 0;
  int64_t num_classes = 0;       // number of classes, at least 1
  double label_smoothing = 0.0;  // the label smoothing must be in [0, 1]
  // kAdd adds the loss to the previous value of its destination.
  Accumulate accumulate = Accumulate::kOverwrite;
  double z_coefficient = 0.0;  // the coefficient of the z-loss must not be negative
  View z_loss = {};            // one element: the z-loss, a part of the loss; null if it is not to be stored
  // Distance in elements between rows of logits (0 means num_classes); used only on a GPU.
  int64_t row_stride = 0;
  // Scratch memory of row_loss_cuda_scratch_bytes(num_rows) bytes; used only by the CUDA kernel.
  View scratch = {};
  // More scratch memory of the same size, which the CUDA kernel needs if the z-loss is stored.
  View z_scratch = {};
};

struct SoftmaxCrossEntropyBwdArgs {
  ConstView logits_BK = {};
  ConstView labels_B = {};     // i32
  ConstView denominator = {};  // one element, by which the loss is divided
  ConstView d_loss = {};       // one element: the gradient with respect to the loss
  View d_logits_BK = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;
  // Used only on a GPU. row_stride is the distance in elements between two rows of logits or of d_logits; 0 means num_classes. Elements
  // between num_classes and row_stride are padding, which may be written. row_losses and row_z_losses may be null; otherwise they are
  // f64[num_rows] and receive the losses as softmax_cross_entropy_rows_cuda() writes them into its scratch and its z_scratch. They require
  // that label_smoothing is 0.
  int64_t row_stride = 0;
  View row_losses = {};
  View row_z_losses = {};
};

// The arguments of the kernel that replaces logits with their gradients, and computes the loss from the sums of exponentials that the
// gradients need.
struct SoftmaxCrossEntropyInPlaceArgs {
  View logits_BK = {};  // f32 or bf16; the gradients overwrite the logits
  ConstView labels_B = {};
  ConstView denominator = {};
  ConstView d_loss = {};
  View loss = {};    // null if the loss is not to be computed
  View z_loss = {};  // null if the z-loss is not to be stored; must be null if `loss` is null
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;
  // kAdd adds the loss to the previous value of its destination.
  Accumulate accumulate = Accumulate::kOverwrite;
  // f32 scratch memory in which rows of bf16 logits are converted: cross_entropy_wide_row_floats(num_classes) elements per thread.
  View wide_row = {};
};

// Returns a bound on the absolute error of the loss of one row in fp32. The logarithm turns the relative error of the sum into an absolute
// error, and everything else is computed in double. Storing the loss adds 2^-24 of its magnitude.
constexpr double softmax_cross_entropy_row_error(int64_t num_classes) {
  return softmax_sum_error(num_classes);
}
// The numbers from which error bounds for a z-loss are computed: its coefficient, and the largest |log Z| of a row.
struct ZLossBound {
  double coefficient = 0.0;
  double largest_log_z = 0.0;
  constexpr double gradient_factor() const { return 1.0 + 2.0 * coefficient * largest_log_z; }
};
// Returns a bound on the error of a row's z-loss if log Z has an error of at most `error`.
constexpr double z_loss_row_error(const ZLossBound& z, double error) {
  return z.coefficient * error * (2.0 * z.largest_log_z + error);
}

// Returns a bound on the absolute error of one element of d_logits, with scale = |d_loss / denominator|. It consists of the error of the
// probability and of three roundings, those of two differences and of the product with the scale. The terms of the differences, and their
// results, have magnitudes of at most 1. A z-loss multiplies the probability by at most z.gradient_factor(), which has the error of log Z.
constexpr double softmax_cross_entropy_bwd_error(int64_t num_classes, double scale,
                                                 const ZLossBound& z = {}) {
  return ((softmax_fwd_error(num_classes) + 0x1p-21) * z.gradient_factor() +
          2.0 * z.coefficient * softmax_sum_error(num_classes)) *
         scale;
}

void softmax_cross_entropy_fwd_ref(const SoftmaxCrossEntropyFwdArgs& args);
void softmax_cross_entropy_bwd_ref(const SoftmaxCrossEntropyBwdArgs& args);

// Compute the loss and the gradients on a CPU. Requires: logits, row_loss and d_logits are f32.
void softmax_cross_entropy_fwd_cpu(const SoftmaxCrossEntropyFwdArgs& args);
void softmax_cross_entropy_bwd_cpu(const SoftmaxCrossEntropyBwdArgs& args);
// Computes the loss and the gradients in one pass, with the bits of the two functions above, so that the logits of a row are read from
// memory only once. bf16 logits are converted to fp32, and their gradients are rounded to bf16 once.
void softmax_cross_entropy_in_place_cpu(const SoftmaxCrossEntropyInPlaceArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. Logits
// and d_logits are f32, bf16 or f16, both of one type; row_loss is f32; denominator, loss and d_loss are in
// device memory and f32 or f64. Labels that are too large are not detected; the caller has validated them.
// Errors against the reference: the error bounds stated above, plus the rounding when a result is stored.

// Compute the loss and the gradients on a GPU. Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8. args.accumulate states whether
// the loss is added to its destination.
void softmax_cross_entropy_fwd_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream);
// Compute the same loss as softmax_cross_entropy_fwd_cuda in two steps, if the rows are processed in several calls. The first function
// computes the losses of some rows and stores them in the scratch memory. The second one adds num_rows stored losses and divides the sum,
// without reading logits.
void softmax_cross_entropy_rows_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream);
void softmax_cross_entropy_total_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream);
void softmax_cross_entropy_bwd_cuda(const SoftmaxCrossEntropyBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
