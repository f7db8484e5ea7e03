// This header states the contract of dynamic loss scaling: the adjustment of the loss scale after the gradients of a step are known.
// Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula, with s = `scale`, the factor of the loss in the backward pass, and g = `good_steps`:
//   used_scale = s, unscaled_norm = norm / s
//   finite:     g <- g + 1; if g reaches growth_interval: g <- 0 and s <- 2 s, unless 2 s overflows its type
//   not finite: g <- 0, s <- max(s / 2, smallest), skipped <- skipped + 1
// Source: torch.amp.GradScaler (its defaults are the factors 2 and 1/2 and an interval of 2000 steps), which
// has no smallest scale. The caller reports an error if the gradients overflow at the smallest scale. Types:
// scale f32 (the reference also takes f64); good_steps, skipped and skipped_out i32; norm, finite,
// unscaled_norm and used_scale f32 or f64. One element each. Accumulation: none; halving and doubling are
// exact, the quotient is rounded once. Aliasing: no view overlaps another. Scratch: none. Repeatability: the
// same bits everywhere. Error: half a unit in the last place for unscaled_norm; the other results are exact.
// Cost: reads and writes 8 numbers.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct AdjustLossScaleArgs {
  ConstView norm = {};      // norm of the scaled gradients
  ConstView finite = {};    // 1 if every gradient is finite, otherwise 0
  View scale = {};          // the loss scale; read and written
  View good_steps = {};     // number of steps since the scale changed; read and written
  View skipped = {};        // number of skipped steps of the run; read and written
  View unscaled_norm = {};  // norm of the unscaled gradients; written
  View used_scale = {};     // the scale before the adjustment; written
  View skipped_out = {};    // a copy of `skipped` that the host reads; written
  double smallest = 1.0;
  int64_t growth_interval = 2000;
};

void adjust_loss_scale_ref(const AdjustLossScaleArgs& args);
// Adjusts the scale on a CPU. Calls the reference, because only eight numbers are read and written.
void adjust_loss_scale_cpu(const AdjustLossScaleArgs& args);

// The function below runs on an NVIDIA GPU, in one thread. kernels/element_wise/add.h states the rules
// for all CUDA kernels. Every view is in device memory.

void adjust_loss_scale_cuda(const AdjustLossScaleArgs& args, CudaStream stream);

}  // namespace plimsoll
