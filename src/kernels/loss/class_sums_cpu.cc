#include "kernels/loss/class_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "device/cpu/simd_targets.h"
#include "kernels/loss/loss_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/class_sums_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/simd/vectors-inl.h"
#include "kernels/loss/row_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Computes the sums of class_sums.h for one row `x` of logits, and stores each of them in the element of `sums` whose index args.columns
// returns. Requires: all elements of `sums` are zero.
void class_sums_of_row(const ClassSumsArgs& args, const float* x, int64_t label, float* sums) {
  const ClassColumns& columns = args.columns;
  const ClassShare& share = args.share;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float most = share.count == 0 ? kNone : row_max(x, share.count);
  sums[columns.log_sum(share.rank)] =
      share.count == 0
          ? kNone
          : static_cast<float>(static_cast<double>(most) + std::log(row_sum_exp(x, share.count, most)));
  const float label_logit = share.has(label) ? x[label - share.first] : 0.0f;
  sums[columns.label_logit()] = label_logit;
  if (columns.smooths) {
    double sum = 0.0;
    for (int64_t k = 0; k < share.count; ++k) sum += static_cast<double>(x[k]);
    sums[columns.logit_sum()] = static_cast<float>(sum);
  }
  if (!columns.counts) return;
  sums[columns.largest(share.rank)] = most;
  if (!share.has(label) || !(label_logit >= most)) return;
  const bool is_first =
      std::none_of(x, x + (label - share.first), [&](float other) { return other == label_logit; });
  sums[columns.label_is_largest()] = is_first ? 1.0f : 0.0f;
}

// Computes the gradients of a row of logits. `x` and `d_x` may be the same row.
template <typename T>
void class_gradient_of_row(const ClassSumsBwdArgs& args, const float* x, int64_t label, const float* d_sums,
                           T* d_x) {
  const ClassShare& share = args.share;
  const int64_t n = share.count;
  if (n > 0) {
    const F32Tag tag;
    const bool has_label = share.has(label);
    const double label_logit = has_label ? static_cast<double>(x[label - share.first]) : 0.0;
    const float max = row_max(x, n);
    const double sum = row_sum_exp(x, n, max);
    const auto d_log_sum = static_cast<double>(d_sums[args.columns.log_sum(share.rank)]);
    const float shift = args.columns.smooths ? d_sums[args.columns.logit_sum()] : 0.0f;
    const FloatVec max_v = hn::Set(tag, max), shift_v = hn::Set(tag, shift);
    const FloatVec factor_v = hn::Set(tag, static_cast<float>(d_log_sum / sum));
    for_each_vector(tag, 0, n, [&](auto access, int64_t i) HWY_ATTR {
      const FloatVec e = exp_keeping_nan(hn::Sub(access.load(tag, x + i), max_v));
      access.store(tag, hn::MulAdd(e, factor_v, shift_v), d_x + i);
    });
    if (has_label) {
      const double p = std::exp(label_logit - static_cast<double>(max)) / sum;
      const double of_label = static_cast<double>(d_sums[args.columns.label_logit()]);
      View{d_x, DTypeOf<T>::value}.store(
          label - share.first, static_cast<float>(p * d_log_sum + of_label + static_cast<double>(shift)));
    }
  }
  std::fill(d_x + n, d_x + args.num_columns, T{});
}

// Computes the gradients of row `b` of the logits. bf16 logits are first converted to fp32 in the buffer `wide`.
void class_gradient(const ClassSumsBwdArgs& args, int64_t b, int64_t label, float* wide) {
  const float* d_sums = args.d_sums_BS.as<float>() + b * args.columns.size();
  if (args.logits_BK.dtype == DType::kF32) {
    return class_gradient_of_row(args, args.logits_BK.as<float>() + b * args.row_stride, label, d_sums,
                                 args.d_logits_BK.as<float>() + b * args.row_stride);
  }
  const F32Tag tag;
  const BF16* x = args.logits_BK.as<BF16>() + b * args.row_stride;
  for_each_vector(tag, 0, args.share.count, [&](auto access, int64_t i) HWY_ATTR {
    access.store(tag, access.load(tag, x + i), wide + i);
  });
  class_gradient_of_row(args, wide, label, d_sums, args.d_logits_BK.as<BF16>() + b * args.row_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(class_sums_of_row);
HWY_EXPORT(class_gradient);

void class_sums_cpu(const ClassSumsArgs& args) {
  const int32_t* labels = args.labels_B.as<int32_t>();
  const auto* logits = args.logits_BK.as<float>();
  auto* all = args.sums_BS.as<float>();
  const int64_t size = args.columns.size();
  const auto row_function = &HWY_DYNAMIC_DISPATCH(class_sums_of_row);
  for_each_row(args.num_rows, std::max<int64_t>(1, args.share.count), [&](int64_t b) {
    std::fill(all + b * size, all + (b + 1) * size, 0.0f);
    if (labels[b] >= 0) row_function(args, logits + b * args.row_stride, labels[b], all + b * size);
  });
}

void class_sums_bwd_cpu(const ClassSumsBwdArgs& args) {
  const int32_t* labels = args.labels_B.as<int32_t>();
  const bool widens = args.logits_BK.dtype != DType::kF32;
  PLIMSOLL_CHECK(args.logits_BK.dtype == args.d_logits_BK.dtype,
                 "logits and their gradients must have one type, but are {} and {}",
                 dtype_name(args.logits_BK.dtype), dtype_name(args.d_logits_BK.dtype));
  PLIMSOLL_CHECK(
      !widens || (args.logits_BK.dtype == DType::kBF16 && args.wide_row),
      "logits that are not f32 must be bf16 and need scratch memory for a row in fp32, but they are {}{}",
      dtype_name(args.logits_BK.dtype), args.wide_row ? "" : " and the scratch memory is missing");
  const auto row_function = &HWY_DYNAMIC_DISPATCH(class_gradient);
  const int64_t blocks = num_row_blocks(args.num_rows, args.num_columns);
  const int64_t element = dtype_bytes(args.d_logits_BK.dtype);
  parallel_for(blocks, [&](int64_t block, int thread) {
    float* wide = widens
                      ? args.wide_row.as<float>() + thread * cross_entropy_wide_row_floats(args.num_columns)
                      : nullptr;
    for (int64_t b = args.num_rows * block / blocks; b < args.num_rows * (block + 1) / blocks; ++b) {
      if (labels[b] >= 0) {
        row_function(args, b, labels[b], wide);
      } else {
        std::memset(static_cast<std::byte*>(args.d_logits_BK.data) + b * args.row_stride * element, 0,
                    static_cast<size_t>(args.num_columns * element));
      }
    }
  });
}

namespace {

// Returns log Z, the logarithm of the sum of exponentials over the classes of all ranks, computed from one row of class sums.
double log_sum_of_ranks_cpu(const float* sums, const ClassColumns& columns) {
  const float* log_sums = sums + columns.log_sum(0);
  const auto most = static_cast<double>(*std::max_element(log_sums, log_sums + columns.ranks));
  double sum = 0.0;
  for (int64_t r = 0; r < columns.ranks; ++r) sum += std::exp(static_cast<double>(log_sums[r]) - most);
  return most + std::log(sum);
}

// Returns true if the label has the largest logit of all ranks. The sums of the label's rank state whether it has the largest logit of that
// rank; if so, the function compares its logit with the largest logits of the other ranks.
bool predicts_label_cpu(const ClassSumsLossArgs& args, const float* sums, int64_t label) {
  const ClassColumns& columns = args.columns;
  if (sums[columns.label_is_largest()] == 0.0f) return false;
  const float limit = sums[columns.label_logit()];
  const int64_t own = label / args.rank_classes;
  for (int64_t r = 0; r < columns.ranks; ++r) {
    const float other = sums[columns.largest(r)];
    if (r < own ? other >= limit : r > own && other > limit) return false;
  }
  return true;
}

// The loss of one or more rows, and the number of correct predictions among them.
struct CountedLoss {
  RowLoss loss;
  int32_t num_correct = 0;
  CountedLoss& operator+=(const CountedLoss& other) {
    loss += other.loss;
    num_correct += other.num_correct;
    return *this;
  }
};

// The estimated time to process one column of the matrix of class sums (class_sums.h), as a multiple of the time per logit. The number of
// rows that each thread processes depends on it.
constexpr int64_t kLogitsPerSum = 4;

}  // namespace

void class_sums_loss_cpu(const ClassSumsLossArgs& args) {
  const ClassColumns& columns = args.columns;
  const int32_t* labels = args.labels_B.as<int32_t>();
  const auto* all = args.sums_BS.as<float>();
  const auto classes = static_cast<double>(args.num_classes);
  PLIMSOLL_CHECK(
      !args.num_correct || columns.counts,
      "`columns.counts` must be set in the arguments, because correct predictions are to be counted");
  check_labels(labels, args.num_rows, args.num_classes);
  const auto total =
      sum_over_rows<CountedLoss>(args.num_rows, kLogitsPerSum * columns.size(), [&](int64_t b) {
        CountedLoss row;
        if (labels[b] < 0) return row;
        const float* sums = all + b * columns.size();
        const double log_z = log_sum_of_ranks_cpu(sums, columns);
        row.loss.z_loss = args.z_coefficient * log_z * log_z;
        row.loss.loss =
            (1.0 - args.label_smoothing) * (log_z - static_cast<double>(sums[columns.label_logit()])) +
            row.loss.z_loss;
        if (columns.smooths)
          row.loss.loss +=
              args.label_smoothing * (log_z - static_cast<double>(sums[columns.logit_sum()]) / classes);
        if (args.num_correct && predicts_label_cpu(args, sums, labels[b])) row.num_correct = 1;
        return row;
      });
  args.loss.store(0, total.loss.loss / args.denominator.load(0));
  if (args.z_loss) args.z_loss.store(0, total.loss.z_loss / args.denominator.load(0));
  if (args.num_correct) args.num_correct.as<int32_t>()[0] = total.num_correct;
}

void class_sums_loss_bwd_cpu(const ClassSumsLossBwdArgs& args) {
  const ClassColumns& columns = args.columns;
  const int32_t* labels = args.labels_B.as<int32_t>();
  const auto* all = args.sums_BS.as<float>();
  auto* d_all = args.d_sums_BS.as<float>();
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  const double of_sum = -args.label_smoothing / static_cast<double>(args.num_classes) * scale;
  for_each_row(args.num_rows, kLogitsPerSum * columns.size(), [&](int64_t b) {
    const float* sums = all + b * columns.size();
    float* d_sums = d_all + b * columns.size();
    std::fill(d_sums, d_sums + columns.size(), 0.0f);
    if (labels[b] < 0) return;
    const double log_z = log_sum_of_ranks_cpu(sums, columns);
    const double of_z = (1.0 + 2.0 * args.z_coefficient * log_z) * scale;
    for (int64_t r = 0; r < columns.ranks; ++r) {
      const int64_t at = columns.log_sum(r);
      d_sums[at] = static_cast<float>(std::exp(static_cast<double>(sums[at]) - log_z) * of_z);
    }
    d_sums[columns.label_logit()] = static_cast<float>(-(1.0 - args.label_smoothing) * scale);
    if (columns.smooths) d_sums[columns.logit_sum()] = static_cast<float>(of_sum);
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
