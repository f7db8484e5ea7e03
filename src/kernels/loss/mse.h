// This header states the contracts of the mean squared error for regression, forward and backward. Thread-safe: kernels keep no state.
// Views are used only during the call.
//
// Shape letters: B rows, K targets; dense, row-major. Only the first num_real_rows rows contain samples ("real rows"); the others are never
// read, and their gradients are set to 0.
//
// Formula, over real rows: loss = 1/(denominator K) * sum_{b,k} (x - y)^2; d_x = 2 (x - y) * d_loss /
// (denominator K).
// Source: torch.nn.MSELoss with reduction "mean". The denominator counts the real rows of the whole optimizer
// step.
// Types: references take any floating type; CPU kernels take f32; denominator, loss and d_loss have 1 element
// of f32 or f64.
// Accumulation: differences and squares in double, lanes added in double, rows in a fixed order of at most
// kLossRowBlocks blocks; one rounding when the loss is stored. Nothing overflows before the loss itself
// exceeds fp32.
// Aliasing: d_x may be the same buffer as x.
// Scratch: none.
// Repeatability: the same bits for any number of threads. Error of the CPU kernels against the reference: fwd
// 2^-24 |loss| (its one rounding) plus 2^-53 BK relative; bwd 2^-24 * 3 * |d_x| (difference, factor,
// product).
// Cost: fwd reads 8BK bytes and takes 3 BK FLOPs; bwd reads 8BK and writes 4BK bytes and takes 2 BK FLOPs.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/nll.h"

namespace plimsoll {

struct MseFwdArgs {
  ConstView x_BK = {};
  ConstView labels_BK = {};
  ConstView denominator = {};  // one positive element, by which the loss is divided
  View loss = {};              // one element: the loss of all rows
  int64_t num_rows = 0;
  int64_t num_real_rows = 0;  // number of real rows, from 0 to num_rows
  int64_t num_classes = 0;    // number of targets per row, called K above
  Accumulate accumulate = Accumulate::kOverwrite;
  // Scratch memory of row_loss_cuda_scratch_bytes(num_rows) bytes; used only by the CUDA kernel.
  View scratch = {};
};

struct MseBwdArgs {
  ConstView x_BK = {};
  ConstView labels_BK = {};
  ConstView denominator = {};  // one element, by which the loss is divided
  ConstView d_loss = {};       // one element: the gradient with respect to the loss
  View d_x_BK = {};
  int64_t num_rows = 0;
  int64_t num_real_rows = 0;
  int64_t num_classes = 0;
};

void mse_fwd_ref(const MseFwdArgs& args);
void mse_bwd_ref(const MseBwdArgs& args);

// Compute the loss and the gradient on a CPU. Requires: the [B,K] views are f32.
void mse_fwd_cpu(const MseFwdArgs& args);
void mse_bwd_cpu(const MseBwdArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. Each [B,K] view is f32, bf16 or f16;
// denominator, loss and d_loss are in device memory and f32 or f64. The number of real rows is read from the one element (i32 or i64) of
// `num_real_rows` in device memory; if that view is null, it is args.num_real_rows.

// Compute the loss and the gradient on a GPU. Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8.
void mse_fwd_cuda(const MseFwdArgs& args, ConstView num_real_rows, CudaStream stream);
void mse_bwd_cuda(const MseBwdArgs& args, ConstView num_real_rows, CudaStream stream);

}  // namespace plimsoll
