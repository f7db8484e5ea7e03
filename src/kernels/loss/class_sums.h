// This header states the contracts of the softmax cross-entropy loss whose classes are divided among the ranks of a tensor-parallel group
// (Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3). Each rank has the logits of its own classes, and the ranks exchange a few
// sums per row instead of the logits. Except for the sum of all logits, each of these sums is zero on all ranks but one, so that adding it
// over the ranks is exact.
//
//   class_sums:           logits of this rank -> sums, with zeros in the columns of other ranks (an all_reduce then adds the ranks' sums)
//   class_sums_loss:      sums of all ranks -> loss, z-loss, number of correct predictions
//   class_sums_loss_bwd:  sums of all ranks, d_loss -> d_sums
//   class_sums_bwd:       logits of this rank, d_sums -> d_logits of this rank
//
// Shape letters: B rows; K classes of a rank, of which the last ones of the last ranks may be padding; V classes of all ranks; S
// columns of sums (base/class_columns.h). Rank r has the classes from first = r K on; n = max(0, min(K, V - first)) of its columns
// are classes.
//
// Formulas, for rows whose label is not negative, with e = label_smoothing and c = z_coefficient:
//   log_sum_r = log sum_{k < n} exp(x[k])                    -inf for n = 0
//   log Z     = log sum_r exp(log_sum_r)
//   row_loss  = (1-e) (log Z - label_logit) + e (log Z - logit_sum / V) + c log(Z)^2
//   loss      = sum_b row_loss_b / denominator,  z_loss = sum_b c log(Z_b)^2 / denominator
//   correct   = the number of rows whose label has the largest logit (the first of equal ones), as in count_correct.h
//   d_log_sum_r   = exp(log_sum_r - log Z) (1 + 2 c log Z) s        with s = d_loss / denominator
//   d_label_logit = -(1-e) s,  d_logit_sum = -e/V s
//   d_logits[k]   = exp(x[k] - log_sum_r) d_log_sum_r + [first + k == label] d_label_logit + d_logit_sum
// This is the loss of softmax_cross_entropy.h, and its gradient. A row with a negative label has sums, d_sums and d_logits of 0, and its
// logits are not read. The d_logits of padding are 0.
//
// Types: references take any floating types. CPU kernels: logits f32, and bf16 for class_sums_bwd in place; sums and d_sums f32. CUDA
// kernels: logits f32, bf16 or f16; sums and d_sums f32. Labels i32; denominator, loss and d_loss have 1 element of f32 or f64; the number
// of correct predictions is i32.
// Accumulation: the sum of exponentials as in softmax.h; everything else in double. Sums are rounded when they are stored.
// Special values: a NaN or +inf among the logits makes the loss NaN.
// Aliasing: d_logits may be the same buffer as logits.
// Scratch: none on a CPU; on a GPU class_sums_loss needs row_loss_cuda_scratch_bytes(num_rows), twice that with a z-loss.
// Repeatability: the same bits for any number of threads; rows are never split.
// Cost: class_sums reads BK logits, class_sums_bwd reads and writes them; about 20 BK FLOPs each. The others read and write BS numbers.
// Thread-safe: kernels keep no state. Views are used only during the call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/class_columns.h"
#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {

// The range of classes whose logits one rank has.
struct ClassShare {
  int64_t rank = 0;
  int64_t first = 0;
  int64_t count = 0;  // number of classes of the rank, without padding
  constexpr bool has(int64_t label) const { return label >= first && label - first < count; }
};
// Returns the range of classes that belong to a rank, if the logits of each rank have `columns` columns.
constexpr ClassShare class_share(int64_t rank, int64_t columns, int64_t all_classes) {
  return {rank, rank * columns, std::clamp<int64_t>(all_classes - rank * columns, 0, columns)};
}

struct ClassSumsArgs {
  ConstView logits_BK = {};
  ConstView labels_B = {};  // i32; a label is the number of a class among those of all ranks
  View sums_BS = {};
  int64_t num_rows = 0;
  int64_t row_stride = 0;  // distance in elements between two rows of logits
  ClassShare share = {};
  ClassColumns columns = {};
};

struct ClassSumsBwdArgs {
  ConstView logits_BK = {};
  ConstView labels_B = {};
  ConstView d_sums_BS = {};
  View d_logits_BK = {};
  int64_t num_rows = 0;
  int64_t row_stride = 0;   // distance in elements between two rows of logits and also of d_logits
  int64_t num_columns = 0;  // number of columns of d_logits including padding, called K above
  ClassShare share = {};
  ClassColumns columns = {};
  // Used only on a CPU for bf16 logits: f32 scratch memory of cross_entropy_wide_row_floats(num_columns) elements per thread.
  View wide_row = {};
};

struct ClassSumsLossArgs {
  ConstView sums_BS = {};
  ConstView labels_B = {};
  ConstView denominator = {};
  View loss = {};
  View z_loss = {};  // null if the z-loss is not to be stored
  // The number of correct predictions, i32; may be null. Requires columns.counts if it is not null.
  View num_correct = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;   // number of classes of all ranks, called V above
  int64_t rank_classes = 0;  // number of classes per rank, called K above; class k belongs to rank k / K
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;
  ClassColumns columns = {};
  View scratch = {};  // scratch memory, used only by the CUDA kernel
};

struct ClassSumsLossBwdArgs {
  ConstView sums_BS = {};
  ConstView labels_B = {};
  ConstView denominator = {};
  ConstView d_loss = {};
  View d_sums_BS = {};
  int64_t num_rows = 0;
  int64_t num_classes = 0;  // number of classes of all ranks, called V above
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;
  ClassColumns columns = {};
};

// Returns a bound on the absolute error of log_sum_r, with u = 2^-24. The logarithm turns the relative error of the sum into an absolute
// error, and storing the result adds u times its magnitude.
constexpr double class_log_sum_error(int64_t num_classes, double magnitude) {
  return softmax_sum_error(num_classes) + 0x1p-24 * magnitude;
}
// Returns a bound on the absolute error of an element of d_logits. It consists of the error of the probability times |d_log_sum|, and of
// the roundings of the product and of the sums, whose terms have at most the magnitude `largest`.
constexpr double class_sums_bwd_error(int64_t num_classes, double d_log_sum, double largest) {
  return softmax_fwd_error(num_classes) * d_log_sum + 0x1p-22 * largest;
}

void class_sums_ref(const ClassSumsArgs& args);
void class_sums_bwd_ref(const ClassSumsBwdArgs& args);
void class_sums_loss_ref(const ClassSumsLossArgs& args);
void class_sums_loss_bwd_ref(const ClassSumsLossBwdArgs& args);

void class_sums_cpu(const ClassSumsArgs& args);
void class_sums_bwd_cpu(const ClassSumsBwdArgs& args);
void class_sums_loss_cpu(const ClassSumsLossArgs& args);
void class_sums_loss_bwd_cpu(const ClassSumsLossBwdArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. Errors: the error bounds stated
// above, plus the rounding when a result is stored.
void class_sums_cuda(const ClassSumsArgs& args, CudaStream stream);
void class_sums_bwd_cuda(const ClassSumsBwdArgs& args, CudaStream stream);
void class_sums_loss_cuda(const ClassSumsLossArgs& args, CudaStream stream);
void class_sums_loss_bwd_cuda(const ClassSumsLossBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
