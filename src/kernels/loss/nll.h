// This header states the contracts of the negative log-likelihood of given log-probabilities, forward and backward. Applied after
// log_softmax (softmax.h), it gives the loss of softmax_cross_entropy.h, whose tests use it as a second reference. Thread-safe; views are
// used only during the call.
//
// Shape letters: B rows, K classes; dense, row-major.
//
// Formula, with e = label_smoothing, over the rows whose label is not negative (the others are ignored and
// never read):
//   loss = 1/denominator * sum_b [ -(1-e) y[b, label_b] - e/K * sum_k y[b,k] ]
//   d_y[b,k] = -((1-e) [k == label_b] + e/K) * d_loss / denominator, and 0 in ignored rows
// Source: transformers' LabelSmoother (trainer_pt_utils.py); with e = 0, torch.nn.functional.nll_loss. The
// denominator is the number of real samples (or tokens) of the whole optimizer step, so that accumulated
// micro-batches give the mean.
// Types: references take any floating type; CPU kernels take f32 for [B,K]; labels i32; denominator, loss and
// d_loss f32 or f64.
// Accumulation: rows in double, in a fixed order of at most kLossRowBlocks blocks.
// Aliasing: d_y is only written.
// Scratch: none.
// Repeatability: the same bits for any number of threads. Error of the CPU forward against the reference:
// 2^-24 |loss| (its one rounding) + 2^-52 B relative.
// Cost: fwd reads 4B + 4B bytes (4BK with smoothing); bwd writes 4BK bytes.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"

namespace plimsoll {

// The largest number of blocks into which the rows of a loss are divided. The limits of the blocks depend only on B and K, so the order of
// additions does not depend on the number of threads.
inline constexpr int64_t kLossRowBlocks = 64;

struct NllFwdArgs {
  ConstView y_BK = {};         // the log-probabilities of all classes
  ConstView labels_B = {};     // i32; every label must be below num_classes
  ConstView denominator = {};  // one positive element, by which the loss is divided
  View loss = {};              // one element: the loss of all rows
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  double label_smoothing = 0.0;  // the label smoothing must be in [0, 1]
  // kAdd adds the loss to the previous value of its destination.
  Accumulate accumulate = Accumulate::kOverwrite;
  // Scratch memory of row_loss_cuda_scratch_bytes(num_rows) bytes; used only by the CUDA kernel.
  View scratch = {};
};

struct NllBwdArgs {
  ConstView labels_B = {};     // i32
  ConstView denominator = {};  // one element, by which the loss is divided
  ConstView d_loss = {};       // one element: the gradient with respect to the loss
  View d_y_BK = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;
  double label_smoothing = 0.0;
};

void nll_fwd_ref(const NllFwdArgs& args);
void nll_bwd_ref(const NllBwdArgs& args);

// Compute the loss and the gradient on a CPU. Requires: the [B,K] view is f32.
void nll_fwd_cpu(const NllFwdArgs& args);
void nll_bwd_cpu(const NllBwdArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. The
// [B,K] view is f32, bf16 or f16; denominator, loss and d_loss are in device memory and f32 or f64. Labels
// that are too large are not detected; the caller has validated them.

// Compute the loss and the gradient on a GPU. Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8.
void nll_fwd_cuda(const NllFwdArgs& args, CudaStream stream);
void nll_bwd_cuda(const NllBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
