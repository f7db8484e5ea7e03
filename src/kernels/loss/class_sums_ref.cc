#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/loss/class_sums.h"

namespace plimsoll {
namespace {

constexpr double kNoClass = -std::numeric_limits<double>::infinity();

// The logits of the classes of one rank in one row.
struct RankRow {
  ConstView logits;
  int64_t begin = 0;
  int64_t count = 0;
  double at(int64_t k) const { return logits.load(begin + k); }

  double largest() const {
    double most = kNoClass;
    for (int64_t k = 0; k < count; ++k) most = std::fmax(most, at(k));
    return most;
  }
  double log_sum() const {
    if (count == 0) return kNoClass;
    const double most = largest();
    double sum = 0.0;
    for (int64_t k = 0; k < count; ++k) sum += std::exp(at(k) - most);
    return most + std::log(sum);
  }
  double sum() const {
    double sum = 0.0;
    for (int64_t k = 0; k < count; ++k) sum += at(k);
    return sum;
  }
  bool is_first_of_largest(int64_t label) const {
    const double limit = at(label);
    if (std::isnan(limit)) return false;
    for (int64_t k = 0; k < count; ++k) {
      if (at(k) > limit || (k < label && at(k) == limit)) return false;
    }
    return true;
  }
};

// Returns log Z of a row: the logarithm of the sum of exponentials over the classes of all ranks.
double log_sum_of_ranks(const ConstView& sums, int64_t row, const ClassColumns& columns) {
  const int64_t begin = row * columns.size();
  double most = kNoClass;
  for (int64_t r = 0; r < columns.ranks; ++r) most = std::fmax(most, sums.load(begin + columns.log_sum(r)));
  double sum = 0.0;
  for (int64_t r = 0; r < columns.ranks; ++r) sum += std::exp(sums.load(begin + columns.log_sum(r)) - most);
  return most + std::log(sum);
}

// Returns true if the label has the largest logit of all ranks. The sums of the label's rank state whether it has the largest logit of that
// rank; if so, the function compares its logit with the largest logits of the other ranks.
bool predicts_label(const ClassSumsLossArgs& args, int64_t row, int64_t label) {
  const int64_t begin = row * args.columns.size();
  if (args.sums_BS.load(begin + args.columns.label_is_largest()) == 0.0) return false;
  const double limit = args.sums_BS.load(begin + args.columns.label_logit());
  const int64_t own = label / args.rank_classes;
  for (int64_t r = 0; r < args.columns.ranks; ++r) {
    const double other = args.sums_BS.load(begin + args.columns.largest(r));
    if (r < own ? other >= limit : r > own && other > limit) return false;
  }
  return true;
}

int64_t label_of(const ConstView& labels, int64_t row) {
  return labels.as<int32_t>()[row];
}

}  // namespace

void class_sums_ref(const ClassSumsArgs& args) {
  const ClassColumns& columns = args.columns;
  const ClassShare& share = args.share;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int64_t begin = b * columns.size();
    for (int64_t s = 0; s < columns.size(); ++s) args.sums_BS.store(begin + s, 0.0);
    const int64_t label = label_of(args.labels_B, b);
    if (label < 0) continue;
    const RankRow row{args.logits_BK, b * args.row_stride, share.count};
    args.sums_BS.store(begin + columns.log_sum(share.rank), row.log_sum());
    if (share.has(label)) args.sums_BS.store(begin + columns.label_logit(), row.at(label - share.first));
    if (columns.smooths) args.sums_BS.store(begin + columns.logit_sum(), row.sum());
    if (!columns.counts) continue;
    args.sums_BS.store(begin + columns.largest(share.rank), row.largest());
    if (share.has(label) && row.is_first_of_largest(label - share.first))
      args.sums_BS.store(begin + columns.label_is_largest(), 1.0);
  }
}

void class_sums_bwd_ref(const ClassSumsBwdArgs& args) {
  const ClassColumns& columns = args.columns;
  const ClassShare& share = args.share;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int64_t label = label_of(args.labels_B, b);
    const int64_t first = b * args.row_stride, begin = b * columns.size();
    const int64_t used = label < 0 ? 0 : share.count;
    const RankRow row{args.logits_BK, first, used};
    const double log_sum = row.log_sum();
    const double d_log_sum = args.d_sums_BS.load(begin + columns.log_sum(share.rank));
    const double d_label = args.d_sums_BS.load(begin + columns.label_logit());
    const double d_sum = columns.smooths ? args.d_sums_BS.load(begin + columns.logit_sum()) : 0.0;
    for (int64_t k = 0; k < used; ++k) {
      const double of_label = share.first + k == label ? d_label : 0.0;
      args.d_logits_BK.store(first + k, std::exp(row.at(k) - log_sum) * d_log_sum + of_label + d_sum);
    }
    for (int64_t k = used; k < args.num_columns; ++k) args.d_logits_BK.store(first + k, 0.0);
  }
}

void class_sums_loss_ref(const ClassSumsLossArgs& args) {
  const ClassColumns& columns = args.columns;
  const auto classes = static_cast<double>(args.num_classes);
  PLIMSOLL_CHECK(!args.num_correct || columns.counts,
                 "counting correct predictions needs class sums whose `columns.counts` is set");
  double sum = 0.0, z_sum = 0.0;
  int32_t num_correct = 0;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int64_t label = label_of(args.labels_B, b), begin = b * columns.size();
    PLIMSOLL_CHECK(label < args.num_classes, "row {} has label {}, but there are only {} classes", b, label,
                   args.num_classes);
    if (label < 0) continue;
    const double log_z = log_sum_of_ranks(args.sums_BS, b, columns);
    const double z_loss = args.z_coefficient * log_z * log_z;
    sum += (1.0 - args.label_smoothing) * (log_z - args.sums_BS.load(begin + columns.label_logit())) + z_loss;
    if (columns.smooths)
      sum += args.label_smoothing * (log_z - args.sums_BS.load(begin + columns.logit_sum()) / classes);
    z_sum += z_loss;
    if (args.num_correct && predicts_label(args, b, label)) ++num_correct;
  }
  args.loss.store(0, sum / args.denominator.load(0));
  if (args.z_loss) args.z_loss.store(0, z_sum / args.denominator.load(0));
  if (args.num_correct) args.num_correct.as<int32_t>()[0] = num_correct;
}

void class_sums_loss_bwd_ref(const ClassSumsLossBwdArgs& args) {
  const ClassColumns& columns = args.columns;
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int64_t begin = b * columns.size();
    for (int64_t s = 0; s < columns.size(); ++s) args.d_sums_BS.store(begin + s, 0.0);
    if (label_of(args.labels_B, b) < 0) continue;
    const double log_z = log_sum_of_ranks(args.sums_BS, b, columns);
    const double of_z = (1.0 + 2.0 * args.z_coefficient * log_z) * scale;
    for (int64_t r = 0; r < columns.ranks; ++r) {
      const int64_t at = begin + columns.log_sum(r);
      args.d_sums_BS.store(at, std::exp(args.sums_BS.load(at) - log_z) * of_z);
    }
    args.d_sums_BS.store(begin + columns.label_logit(), -(1.0 - args.label_smoothing) * scale);
    if (columns.smooths) {
      args.d_sums_BS.store(begin + columns.logit_sum(),
                           -args.label_smoothing / static_cast<double>(args.num_classes) * scale);
    }
  }
}

}  // namespace plimsoll
