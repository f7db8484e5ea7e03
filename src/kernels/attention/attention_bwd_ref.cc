// The gradients of attention by their definition, in double. A query's softmax statistics come first; d_q is then a
// sum over keys and d_k, d_v sums over queries, with every probability computed again where it is needed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_schedule.h"

namespace plimsoll {
namespace {

// One sequence and head.
struct Head {
  const AttentionBwdArgs& args;
  AttentionSequence sequence;
  int64_t h;
  double* lse_S;
  double* delta_S;

  double at(const ConstRows& rows, int64_t i, int64_t d) const {
    return rows.view.load((sequence.first + i) * rows.row_stride + h * args.dims.head_dim + d);
  }
  double d_o(int64_t i, int64_t d) const { return at({args.d_o, args.dims.heads * args.dims.head_dim}, i, d); }
  void store(const Rows& rows, int64_t i, int64_t d, double value) const {
    rows.view.store((sequence.first + i) * rows.row_stride + h * args.dims.head_dim + d, value);
  }

  double score(int64_t i, int64_t j) const {
    if (args.options.mask == AttentionMask::kCausal && j > i) return -std::numeric_limits<double>::infinity();
    double dot = 0;
    for (int64_t d = 0; d < args.dims.head_dim; ++d) dot += at(args.q, i, d) * at(args.k, j, d);
    return args.options.scale * dot;
  }
  double probability(int64_t i, int64_t j) const { return std::exp(score(i, j) - lse_S[i]); }
  // 0 where (i, j) is dropped, else what a kept probability is multiplied by.
  double factor(int64_t i, int64_t j) const {
    if (args.options.dropout == 0) return 1;
    const uint64_t element = attention_element(sequence.first + i, args.dims.heads, h, j);
    const bool keep = philox_element(args.options.random, element) >= dropout_threshold(args.options.dropout);
    return keep ? static_cast<double>(dropout_scale(args.options.dropout)) : 0;
  }
  // The gradient of probability (i, j).
  double d_probability(int64_t i, int64_t j) const {
    double dot = 0;
    for (int64_t d = 0; d < args.dims.head_dim; ++d) dot += d_o(i, d) * at(args.v, j, d);
    return factor(i, j) * dot;
  }
  double d_score(int64_t i, int64_t j) const { return probability(i, j) * (d_probability(i, j) - delta_S[i]); }

  void statistics(int64_t i) const {
    double largest = score(i, 0);
    for (int64_t j = 1; j < sequence.count; ++j) largest = std::max(largest, score(i, j));
    double sum = 0;
    for (int64_t j = 0; j < sequence.count; ++j) sum += std::exp(score(i, j) - largest);
    lse_S[i] = largest + std::log(sum);
    delta_S[i] = 0;
    for (int64_t j = 0; j < sequence.count; ++j) delta_S[i] += probability(i, j) * d_probability(i, j);
  }
};

void one_head(const Head& head) {
  const AttentionBwdArgs& args = head.args;
  const int64_t count = head.sequence.count;
  for (int64_t i = 0; i < count; ++i) head.statistics(i);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t d = 0; d < args.dims.head_dim; ++d) {
      double d_q = 0;
      double d_k = 0;
      double d_v = 0;
      for (int64_t other = 0; other < count; ++other) {
        d_q += head.d_score(row, other) * head.at(args.k, other, d);
        d_k += head.d_score(other, row) * head.at(args.q, other, d);
        d_v += head.probability(other, row) * head.factor(other, row) * head.d_o(other, d);
      }
      head.store(args.d_q, row, d, args.options.scale * d_q);
      head.store(args.d_k, row, d, args.options.scale * d_k);
      head.store(args.d_v, row, d, d_v);
    }
  }
}

}  // namespace

void attention_bwd_ref(const AttentionBwdArgs& args) {
  check_attention_args(args, attention_bwd_ref_scratch_bytes(args.dims));
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  double* scratch = static_cast<double*>(args.scratch.data);
  for (int64_t b = 0; b < args.dims.sequences; ++b) {
    for (int64_t h = 0; h < args.dims.heads; ++h) {
      one_head({args, attention_sequence(cu_seqlens, b), h, scratch, scratch + args.dims.longest});
    }
  }
  const int64_t columns = args.dims.heads * args.dims.head_dim;
  for (const Rows& rows : {args.d_q, args.d_k, args.d_v}) {
    clear_rows(rows, columns, cu_seqlens[args.dims.sequences], args.dims.tokens);
  }
}

}  // namespace plimsoll
