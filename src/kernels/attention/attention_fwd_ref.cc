// Computes attention from its definition, one full softmax row at a time, in double.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_schedule.h"

namespace plimsoll {
namespace {

// Computes one query row: sets p_S[j] to the probability of each visible key j, after dropout, and writes o and lse. p_S has one element
// per key of the sequence.
void query_row(const AttentionFwdArgs& args, const AttentionSequence& sequence, int64_t h, int64_t i,
               double* p_S) {
  const int64_t head_dim = args.dims.head_dim;
  const int64_t t = sequence.first + i;
  const AttentionReach reach = attention_reach(args, sequence);
  const int64_t first = reach.first_key(i), end = reach.end_key(i);
  const int64_t kv_head = h / args.dims.group_heads();

  for (int64_t j = first; j < end; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < head_dim; ++d) {
      dot += args.q.view.load(t * args.q.row_stride + h * head_dim + d) *
             args.k.view.load((sequence.first + j) * args.k.row_stride + kv_head * head_dim + d);
    }
    p_S[j] = args.options.scale * dot;
  }
  const double largest = *std::max_element(p_S + first, p_S + end);
  double sum = 0;
  for (int64_t j = first; j < end; ++j) sum += std::exp(p_S[j] - largest);
  const double lse = largest + std::log(sum);
  for (int64_t j = first; j < end; ++j) p_S[j] = std::exp(p_S[j] - lse);

  if (args.options.dropout > 0) {
    for (int64_t j = first; j < end; ++j) {
      const uint32_t number = attention_number(args.options.random, random_row(args, t, h), j);
      const bool keep = number >= dropout_threshold(args.options.dropout);
      p_S[j] *= keep ? static_cast<double>(dropout_scale(args.options.dropout)) : 0.0;
    }
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    double o = 0;
    for (int64_t j = first; j < end; ++j) {
      o += p_S[j] * args.v.view.load((sequence.first + j) * args.v.row_stride + kv_head * head_dim + d);
    }
    args.o.store((t * args.dims.heads + h) * head_dim + d, o);
  }
  if (args.lse) args.lse.store(h * args.dims.tokens + t, lse);
}

}  // namespace

void attention_fwd_ref(const AttentionFwdArgs& args) {
  check_attention_args(args, attention_fwd_ref_scratch_bytes(args.dims));
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  double* p_S = static_cast<double*>(args.scratch.data);
  for (int64_t b = 0; b < args.dims.sequences; ++b) {
    const AttentionSequence sequence = attention_sequence(cu_seqlens, b);
    for (int64_t h = 0; h < args.dims.heads; ++h) {
      for (int64_t i = 0; i < sequence.count; ++i) query_row(args, sequence, h, i, p_S);
    }
  }
  const int64_t columns = args.dims.heads * args.dims.head_dim;
  for (int64_t t = cu_seqlens[args.dims.sequences]; t < args.dims.tokens; ++t) {
    for (int64_t c = 0; c < columns; ++c) args.o.store(t * columns + c, 0);
    for (int64_t h = 0; args.lse && h < args.dims.heads; ++h) args.lse.store(h * args.dims.tokens + t, 0);
  }
}

}  // namespace plimsoll
