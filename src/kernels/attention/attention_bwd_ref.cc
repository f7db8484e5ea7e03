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

// One head of one sequence. Its functions return single elements of the tensors, and the quantities of attention.h for a query row and a
// key row.
struct Head {
  const AttentionBwdArgs& args;
  AttentionSequence sequence;
  int64_t h;
  double* lse_S;
  double* delta_S;

  double at(const ConstRows& rows, int64_t head, int64_t i, int64_t d) const {
    return rows.view.load((sequence.first + i) * rows.row_stride + head * args.dims.head_dim + d);
  }
  int64_t kv_head() const { return h / args.dims.group_heads(); }
  double q(int64_t i, int64_t d) const { return at(args.q, h, i, d); }
  double k(int64_t i, int64_t d) const { return at(args.k, kv_head(), i, d); }
  double v(int64_t i, int64_t d) const { return at(args.v, kv_head(), i, d); }
  double d_o(int64_t i, int64_t d) const {
    return at({args.d_o, args.dims.heads * args.dims.head_dim}, h, i, d);
  }

  double score(int64_t i, int64_t j) const {
    if (!attention_reach(args, sequence).sees(i, j)) return -std::numeric_limits<double>::infinity();
    double dot = 0;
    for (int64_t d = 0; d < args.dims.head_dim; ++d) dot += q(i, d) * k(j, d);
    return args.options.scale * dot;
  }
  double probability(int64_t i, int64_t j) const { return std::exp(score(i, j) - lse_S[i]); }
  // Returns the dropout factor of the probability of query i and key j: 0 if it is dropped, otherwise dropout_scale().
  double factor(int64_t i, int64_t j) const {
    if (args.options.dropout == 0) return 1;
    const uint64_t row = random_row(args, sequence.first + i, h);
    const bool keep =
        attention_number(args.options.random, row, j) >= dropout_threshold(args.options.dropout);
    return keep ? static_cast<double>(dropout_scale(args.options.dropout)) : 0;
  }
  // Returns the gradient of the probability of query i and key j.
  double d_probability(int64_t i, int64_t j) const {
    double dot = 0;
    for (int64_t d = 0; d < args.dims.head_dim; ++d) dot += d_o(i, d) * v(j, d);
    return factor(i, j) * dot;
  }
  double d_score(int64_t i, int64_t j) const {
    return probability(i, j) * (d_probability(i, j) - delta_S[i]);
  }

  void statistics(int64_t i) const {
    double largest = score(i, i);
    for (int64_t j = 0; j < sequence.count; ++j) largest = std::max(largest, score(i, j));
    double sum = 0;
    for (int64_t j = 0; j < sequence.count; ++j) sum += std::exp(score(i, j) - largest);
    lse_S[i] = largest + std::log(sum);
    delta_S[i] = 0;
    for (int64_t j = 0; j < sequence.count; ++j) delta_S[i] += probability(i, j) * d_probability(i, j);
  }
};

// Adds all terms of d_q, d_k and d_v of row i for one head of q. Row i takes part twice: as a query, together with every row `other` as
// key, and as a key, together with every row `other` as query.
void add_row(const Head& head, int64_t i, double* d_q_D, double* d_k_D, double* d_v_D) {
  const AttentionBwdArgs& args = head.args;
  for (int64_t other = 0; other < head.sequence.count; ++other) {
    const double as_query = args.options.scale * head.d_score(i, other);
    const double as_key = args.options.scale * head.d_score(other, i);
    const double weight = head.probability(other, i) * head.factor(other, i);
    for (int64_t d = 0; d < args.dims.head_dim; ++d) {
      d_q_D[d] += as_query * head.k(other, d);
      d_k_D[d] += as_key * head.q(other, d);
      d_v_D[d] += weight * head.d_o(other, d);
    }
  }
}

// Computes d_k and d_v of one sequence and one head of k and v, and d_q of the heads of q that read it.
void one_group(const AttentionBwdArgs& args, const AttentionSequence& sequence, int64_t kv_head,
               double* scratch) {
  const int64_t head_dim = args.dims.head_dim, group = args.dims.group_heads(), longest = args.dims.longest;
  double* d_q_D = scratch + 2 * longest * group;
  double* d_k_D = d_q_D + head_dim;
  double* d_v_D = d_k_D + head_dim;
  const auto head_of = [&](int64_t member) {
    double* lse_S = scratch + 2 * longest * member;
    return Head{args, sequence, kv_head * group + member, lse_S, lse_S + longest};
  };
  const auto store = [&](const Rows& rows, int64_t head, int64_t i, const double* values_D) {
    const int64_t first = (sequence.first + i) * rows.row_stride + head * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) rows.view.store(first + d, values_D[d]);
  };
  for (int64_t member = 0; member < group; ++member) {
    for (int64_t i = 0; i < sequence.count; ++i) head_of(member).statistics(i);
  }
  for (int64_t i = 0; i < sequence.count; ++i) {
    std::fill_n(d_k_D, 2 * head_dim, 0.0);
    for (int64_t member = 0; member < group; ++member) {
      std::fill_n(d_q_D, head_dim, 0.0);
      add_row(head_of(member), i, d_q_D, d_k_D, d_v_D);
      store(args.d_q, kv_head * group + member, i, d_q_D);
    }
    store(args.d_k, kv_head, i, d_k_D);
    store(args.d_v, kv_head, i, d_v_D);
  }
}

}  // namespace

void attention_bwd_ref(const AttentionBwdArgs& args) {
  check_attention_args(args, attention_bwd_ref_scratch_bytes(args.dims));
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  double* scratch = static_cast<double*>(args.scratch.data);
  for (int64_t b = 0; b < args.dims.sequences; ++b) {
    for (int64_t g = 0; g < args.dims.num_kv_heads(); ++g) {
      one_group(args, attention_sequence(cu_seqlens, b), g, scratch);
    }
  }
  clear_gradient_tails(args, cu_seqlens[args.dims.sequences]);
}

}  // namespace plimsoll
