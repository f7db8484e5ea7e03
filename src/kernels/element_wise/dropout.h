// Dropout with counter-based random numbers. One function serves both passes. The header states the contract of these kernels, which
// allocate no memory.
//
//   y[i] = x[i] * factor[i], i = row * C + column of the tensor
//   factor[i] = dropout_scale(p) if random_half(where, number_of(i)) >= dropout_threshold(p), else 0
//
// number_of(i) is i, or the number that the element has in a wider tensor of which x is a range of columns.
//
// The gradient is the same function of d_y with the same `where` (the seed, the micro-batch and the op that select the random numbers); the
// mask is recomputed and never stored. p = 0 copies without drawing. (Srivastava et al., JMLR 15 (2014), section 10, with the scale applied
// in training; the numbers are those of base/philox.h, bit for bit on every device.)
//
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory.
// dropout_fwd_ref takes any floating type for each view; dropout_fwd_cpu takes f32 or bf16, the same for x and y.
// Requires: 0 <= p < 1. Errors: kInternal if a view is absent or has an unsupported type, or if p is out of range.
// Aliasing: y may be x. Scratch: none. Repeatability: exact; the mask is the same on every device. Cost: n FLOPs and
// about 25 integer operations per element; 2n elements moved. Error: one fp32 rounding and one when storing,
// dropout_fwd_error_bound. NaN and infinity stay visible: 0 * inf is NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Describes elements that are a range of the columns of a wider tensor: C of its `all` columns, from column `first` on. C = 0 means that
// the elements are a whole tensor.
struct DropoutColumns {
  int64_t C = 0;
  int64_t all = 0;
  int64_t first = 0;

  // Returns the index in the wider tensor of the element with index i in the range.
  constexpr int64_t number_of(int64_t i) const { return C == 0 ? i : i / C * all + first + i % C; }
};

struct DropoutFwdArgs {
  ConstView x;     // input, shape [n]
  View y;          // output, shape [n]
  int64_t n = 0;   // number of elements, T * C
  double p = 0.0;  // probability that an element becomes zero
  RandomSite where;
  DropoutColumns columns = {};
};
void dropout_fwd_ref(const DropoutFwdArgs& args);
void dropout_fwd_cpu(const DropoutFwdArgs& args);
inline double dropout_fwd_error_bound(double y, DType stored) {
  return kRoundoffF32 * std::abs(y) + store_error_bound(stored, y);
}

// The function below runs on an NVIDIA GPU. add.h states the rules for all CUDA kernels.

// Reads the seed and the number of the micro-batch from rng[0] and rng[1] in device memory. If `rng` is null,
// both come from args.where, like the site (a number that identifies the op). The mask equals that of the CPU bit for bit.
void dropout_fwd_cuda(const DropoutFwdArgs& args, const int64_t* rng, CudaStream stream);

}  // namespace plimsoll
