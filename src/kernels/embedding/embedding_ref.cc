#include "base/check.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/element_wise/rounding.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/sequence_mean.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {

void embedding_sum_fwd_ref(const EmbeddingSumFwdArgs& args) {
  PLIMSOLL_CHECK(1 <= args.num_tables && args.num_tables <= kMaxEmbeddingTables,
                 "the number of embedding tables must be 1 to {}, but is {}", kMaxEmbeddingTables,
                 args.num_tables);
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      double sum = 0.0;
      for (size_t k = 0; t < args.num_tokens && k < static_cast<size_t>(args.num_tables); ++k) {
        int64_t row = args.ids[k].as<int32_t>()[t];
        if (k == 0) row = row_in_first_table(row, args.first_row, args.num_rows);
        if (row >= 0) sum += args.tables[k].load(row * args.C + c);
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

void first_token_fwd_ref(const FirstTokenFwdArgs& args) {
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t b = 0; b < args.B; ++b) {
    const bool used = cu_seqlens[b] < cu_seqlens[b + 1];
    const int64_t row = row_of_sequence(cu_seqlens, b, args.row);
    for (int64_t c = 0; c < args.C; ++c)
      args.out.store(b * args.C + c, used ? args.x.load(row * args.C + c) : 0.0);
  }
}

void first_token_bwd_ref(const FirstTokenBwdArgs& args) {
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t i = 0; i < args.T * args.C; ++i) args.d_x.store(i, 0.0);
  for (int64_t b = 0; b < args.B; ++b) {
    if (cu_seqlens[b] == cu_seqlens[b + 1]) continue;
    const int64_t row = row_of_sequence(cu_seqlens, b, args.row);
    for (int64_t c = 0; c < args.C; ++c) args.d_x.store(row * args.C + c, args.d_out.load(b * args.C + c));
  }
}

void sequence_mean_fwd_ref(const SequenceMeanFwdArgs& args) {
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t b = 0; b < args.B; ++b) {
    const int64_t rows = cu_seqlens[b + 1] - cu_seqlens[b];
    for (int64_t c = 0; c < args.C; ++c) {
      double sum = 0.0;
      for (int64_t t = cu_seqlens[b]; t < cu_seqlens[b + 1]; ++t) sum += args.x.load(t * args.C + c);
      args.y.store(b * args.C + c, rows > 0 ? sum / static_cast<double>(rows) : 0.0);
    }
  }
}

void sequence_mean_bwd_ref(const SequenceMeanBwdArgs& args) {
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  for (int64_t b = 0; b < args.B; ++b) {
    const auto rows = static_cast<double>(cu_seqlens[b + 1] - cu_seqlens[b]);
    for (int64_t t = cu_seqlens[b]; t < cu_seqlens[b + 1]; ++t) {
      for (int64_t c = 0; c < args.C; ++c)
        args.d_x.store(t * args.C + c, args.d_y.load(b * args.C + c) / rows);
    }
  }
  for (int64_t i = cu_seqlens[args.B] * args.C; i < args.T * args.C; ++i) args.d_x.store(i, 0.0);
}

void check_sort_ids(const char* kernel, const SortIdsArgs& args) {
  PLIMSOLL_CHECK(1 <= args.num_lists && args.num_lists <= kMaxEmbeddingTables,
                 "{}: the number of lists of ids must be 1 to {}, but is {}", kernel, kMaxEmbeddingTables,
                 args.num_lists);
  PLIMSOLL_CHECK(0 <= args.num_tokens && args.num_tokens <= args.T,
                 "{}: a batch of {} rows cannot contain {} tokens", kernel, args.T, args.num_tokens);
  for (size_t k = 0; k < static_cast<size_t>(args.num_lists); ++k) {
    PLIMSOLL_CHECK(args.ids[k] && args.ids[k].dtype == DType::kI32, "{}: ids must be present and i32",
                   kernel);
    PLIMSOLL_CHECK(args.sorted[k] && args.sorted[k].dtype == DType::kI32,
                   "{}: the output `sorted` must be present and i32", kernel);
  }
}

void sort_ids_ref(const SortIdsArgs& args) {
  check_sort_ids("sort_ids_ref", args);
  for (size_t k = 0; k < static_cast<size_t>(args.num_lists); ++k) {
    const int32_t* ids = args.ids[k].as<int32_t>();
    std::vector<int32_t> order(static_cast<size_t>(args.T));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.begin() + args.num_tokens,
                     [ids](int32_t a, int32_t b) { return ids[a] < ids[b]; });
    auto* sorted = static_cast<IdOfToken*>(args.sorted[k].data);
    for (int64_t i = 0; i < args.T; ++i) {
      const int32_t token = order[static_cast<size_t>(i)];
      sorted[i] = {.id = i < args.num_tokens ? ids[token] : kNoId, .token = token};
    }
  }
}

}  // namespace plimsoll
