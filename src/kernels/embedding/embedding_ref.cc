
#include "base/check.h"
#include "kernels/element_wise/rounding.h"
#include "kernels/embedding/embedding.h"

namespace plimsoll {

void embedding_sum_fwd_ref(const EmbeddingSumFwdArgs& args) {
  PLIMSOLL_CHECK(1 <= args.num_tables && args.num_tables <= kMaxEmbeddingTables, "{} tables",
                 args.num_tables);
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      double sum = 0.0;
      for (size_t k = 0; t < args.num_tokens && k < static_cast<size_t>(args.num_tables); ++k) {
        sum += args.tables[k].load(int64_t{args.ids[k].as<int32_t>()[t]} * args.C + c);
      }
      args.x.store(t * args.C + c, sum);
    }
  }
}

void embedding_bwd_ref(const EmbeddingBwdArgs& args) {
  const auto* sorted = static_cast<const IdOfToken*>(args.sorted.data);
  for (int64_t v = 0; v < args.V; ++v) {
    for (int64_t c = 0; c < args.C; ++c) {
      double sum = args.accumulate == Accumulate::kAdd ? args.d_table.load(v * args.C + c) : 0.0;
      const int64_t id = args.first_row + v;
      for (int64_t i = 0; i < args.T && id != args.padding_id; ++i) {
        if (sorted[i].id == id) sum += args.d_x.load(int64_t{sorted[i].token} * args.C + c);
      }
      args.d_table.store(v * args.C + c, sum);
    }
  }
}

double embedding_sum_fwd_error_bound(int num_tables, DType x, double abs_sum) {
  return 1.01 * kRoundoffF32 * (num_tables - 1) * abs_sum + store_error_bound(x, abs_sum);
}

double embedding_bwd_error_bound(int64_t num_terms, double abs_sum) {
  return 1.01 * kRoundoffF32 * static_cast<double>(num_terms) * abs_sum;
}

}  // namespace plimsoll
