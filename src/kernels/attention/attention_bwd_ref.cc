// Computes the gradients of attention from their definition, in double. It first computes the softmax
// statistics of each query. d_q is then a sum over keys, and d_k and d_v are sums over queries; every
// probability is recomputed where it is needed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_schedule.h"

namespace plimsoll {
namespace {

// One head of one sequence.
struct Head {
  const AttentionBwdArgs& args;
  AttentionSequence sequence;
  int64_t h;
  double* lse_S;
  double* delta_S;

  double at(const ConstRows& rows, int64_t i, int64_t d) const {
    return rows.view.load((sequence.first + i) * rows.row_stride + h * args.dims.head_dim + d);
  }
  double d_o(int64_t i, int64_t d) const {
    return at({args.d_o, args.dims.heads * args.dims.head_dim}, i, d);
  }
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
  // Returns 0 if (i, j) is dropped, otherwise the factor of a kept probability.
  double factor(int64_t i, int64_t j) const {
    if (args.options.dropout == 0) return 1;
    const uint64_t row = attention_row(sequence.first + i, args.dims.heads, h);
    const bool keep =
        attention_number(args.options.random, row, j) >= dropout_threshold(args.options.dropout);
    return keep ? static_cast<double>(dropout_scale(args.options.dropout)) : 0;
  }
  // Returns the gradient of probability (i, j).
  double d_probability(int64_t i, int64_t j) const {
    double dot = 0;
    for (int64_t d = 0; d < args.dims.head_dim; ++d) dot += d_o(i, d) * at(args.v, j, d);
    return factor(i, j) * dot;
  }
  double d_score(int64_t i, int64_t j) const {
    return probability(i, j) * (d_probability(i, j) - delta_S[i]);
  }

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

// Computes the three gradients of row i. As a query, row i is paired with every key `other`; as a key, it is
// paired with every query `other`.
void one_row(const Head& head, int64_t i, double* d_q_D, double* d_k_D, double* d_v_D) {
  const AttentionBwdArgs& args = head.args;
  const int64_t head_dim = args.dims.head_dim;
  std::fill_n(d_q_D, head_dim, 0.0);
  std::fill_n(d_k_D, head_dim, 0.0);
  std::fill_n(d_v_D, head_dim, 0.0);
  for (int64_t other = 0; other < head.sequence.count; ++other) {
    const double as_query = args.options.scale * head.d_score(i, other);
    const double as_key = args.options.scale * head.d_score(other, i);
    const double weight = head.probability(other, i) * head.factor(other, i);
    for (int64_t d = 0; d < head_dim; ++d) {
      d_q_D[d] += as_query * head.at(args.k, other, d);
      d_k_D[d] += as_key * head.at(args.q, other, d);
      d_v_D[d] += weight * head.d_o(other, d);
    }
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    head.store(args.d_q, i, d, d_q_D[d]);
    head.store(args.d_k, i, d, d_k_D[d]);
    head.store(args.d_v, i, d, d_v_D[d]);
  }
}

}  // namespace

void attention_bwd_ref(const AttentionBwdArgs& args) {
  check_attention_args(args, attention_bwd_ref_scratch_bytes(args.dims));
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  double* scratch = static_cast<double*>(args.scratch.data);
  for (int64_t b = 0; b < args.dims.sequences; ++b) {
    for (int64_t h = 0; h < args.dims.heads; ++h) {
      const Head head{args, attention_sequence(cu_seqlens, b), h, scratch, scratch + args.dims.longest};
      for (int64_t i = 0; i < head.sequence.count; ++i) head.statistics(i);
      double* d_q_D = scratch + 2 * args.dims.longest;
      for (int64_t i = 0; i < head.sequence.count; ++i) {
        one_row(head, i, d_q_D, d_q_D + args.dims.head_dim, d_q_D + 2 * args.dims.head_dim);
      }
    }
  }
  const int64_t columns = args.dims.heads * args.dims.head_dim;
  for (const Rows& rows : {args.d_q, args.d_k, args.d_v}) {
    clear_rows(rows, columns, cu_seqlens[args.dims.sequences], args.dims.tokens);
  }
}

}  // namespace plimsoll
