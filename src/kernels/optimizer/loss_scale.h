// Dynamic loss scaling: what the gradients of a step say about the scale that they were computed with:
// contract. Thread-safe: kernels keep no state. Views are borrowed for the call.
//
// Formula, with s the scale that the backward pass multiplied by:
//   used_scale = s, unscaled_norm = norm / s
//   finite:     g <- g + 1; where g reaches growth_interval: g <- 0 and s <- 2 s, unless 2 s overflows its
//               type
//   not finite: g <- 0, s <- max(s / 2, smallest), skipped <- skipped + 1
// Source: torch.amp.GradScaler (its defaults are the factors 2 and 1/2 and an interval of 2000 steps), which
// has no smallest scale: a step that overflows at it is the caller's to refuse.
// Types: scale f32 (the reference: f64 too); good_steps, skipped and skipped_out i32; norm, finite,
// unscaled_norm and used_scale f32 or f64. One element each.
// Accumulation: none; halving and doubling are exact, the quotient is rounded once.
// Aliasing: no view overlaps another.
// Scratch: none.
// Repeatability: same bits everywhere.
// Error: unscaled_norm half a last bit of its type, the rest exact.
// Cost: 8 numbers.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct AdjustLossScaleArgs {
  ConstView norm = {};      // of the scaled gradients
  ConstView finite = {};    // 0: a gradient is not finite
  View scale = {};          // read and written
  View good_steps = {};     // read and written: since the scale changed
  View skipped = {};        // read and written: steps of the run that were not done
  View unscaled_norm = {};  // written
  View used_scale = {};     // written: the scale before
  View skipped_out = {};    // written: `skipped`, where the host reads it
  double smallest = 1.0;
  int64_t growth_interval = 2000;
};

void adjust_loss_scale_ref(const AdjustLossScaleArgs& args);
// The reference itself: eight numbers.
void adjust_loss_scale_cpu(const AdjustLossScaleArgs& args);

// The function below runs on an NVIDIA GPU, on one thread; kernels/element_wise/add.h states the rules for
// all CUDA kernels. Every view is device memory.

void adjust_loss_scale_cuda(const AdjustLossScaleArgs& args, CudaStream stream);

}  // namespace plimsoll
