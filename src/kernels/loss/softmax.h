// This header states the contracts of log-softmax over the last dimension, forward and backward. The fused cross-entropy loss is in
// softmax_cross_entropy.h. Thread-safe: kernels keep no state. Views are used only during the call.
//
// Shape letters: B rows, K classes; everything is dense and row-major.
//
// Formulas: log_softmax_k(x) = x_k - max - log(sum_j exp(x_j - max)).
//   log_softmax_bwd: d_x_k = d_y_k - exp(y_k) * sum_j d_y_j        with y = log_softmax(x)
// Types: references take any floating type; the CPU kernels take f32 for all views.
// Accumulation: fp32 lanes within a block of kSoftmaxSumBlock classes, blocks added in double in order.
// Special values: a NaN, a +inf, or only -inf in a row makes the whole row NaN, as in IEEE arithmetic; a
// single -inf is a probability of exactly 0. No finite logit overflows.
// Aliasing: an output may be the same buffer as any input of its shape; partial overlap is not allowed.
// Scratch: none.
// Repeatability: the same bits for any number of threads; rows are never split.
// Cost: fwd reads 4BK and writes 4BK bytes (three passes over the logits, from cache if a row fits) and takes
// about 20 BK FLOPs; bwd reads 8BK and writes 4BK bytes and takes about 20 BK FLOPs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

// The number of classes that form a block. The exponentials of a block are added in fp32, and the sums of the blocks in double.
inline constexpr int64_t kSoftmaxSumBlock = 256;

struct SoftmaxFwdArgs {
  ConstView x_BK = {};
  View y_BK = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;  // number of classes, at least 1
};

struct SoftmaxBwdArgs {
  ConstView y_BK = {};  // the log-probabilities that the forward kernel computed
  ConstView d_y_BK = {};
  View d_x_BK = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;  // number of classes, at least 1
};

// Returns the number of dependent fp32 additions in a sum over the classes if vectors have one lane, which is the longest case.
constexpr int64_t softmax_sum_chain(int64_t num_classes) {
  return std::min(num_classes, kSoftmaxSumBlock) + 3;
}

// Returns a bound on the relative error of sum_j exp(x_j - max) in fp32, with u = 2^-24 and z = x - max: rounding z changes a term by at
// most u |z| exp(z) <= 0.37 u, computing exp adds 2u, and each of the softmax_sum_chain() dependent additions adds u.
constexpr double softmax_sum_error(int64_t num_classes) {
  return 0x1p-24 * (4.0 + static_cast<double>(softmax_sum_chain(num_classes)));
}

// Return bounds on the absolute error of one element in fp32: of a probability (for softmax_cross_entropy.h), and of log_softmax, which
// adds the rounding of the result.
constexpr double softmax_fwd_error(int64_t num_classes) {
  return softmax_sum_error(num_classes) + 0x1p-22;
}
constexpr double log_softmax_fwd_error(int64_t num_classes, double abs_y) {
  return softmax_sum_error(num_classes) + 0x1p-23 * abs_y;
}
// Returns a bound on the absolute error of one element of the gradient, given the sum of |d_y| over the classes. In the formula, the sum of
// d_y is multiplied by the probability exp(y). exp(y) with y rounded to fp32 has an additional error of u |y| exp(y) <= 0.37 u.
constexpr double log_softmax_bwd_error(int64_t num_classes, double sum_abs_d_y) {
  return 0x1p-24 * (8.0 + static_cast<double>(softmax_sum_chain(num_classes))) * sum_abs_d_y;
}

void log_softmax_fwd_ref(const SoftmaxFwdArgs& args);
void log_softmax_bwd_ref(const SoftmaxBwdArgs& args);

// Compute log-softmax and its gradient on a CPU. Requires: every view is f32.
void log_softmax_fwd_cpu(const SoftmaxFwdArgs& args);
void log_softmax_bwd_cpu(const SoftmaxBwdArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. Views
// are f32, bf16 or f16, all of one type. Errors against the reference: the error bounds stated above, plus
// the rounding when a result is stored.

void log_softmax_fwd_cuda(const SoftmaxFwdArgs& args, CudaStream stream);
void log_softmax_bwd_cuda(const SoftmaxBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
