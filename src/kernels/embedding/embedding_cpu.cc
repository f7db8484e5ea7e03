#include "kernels/embedding/embedding.h"

#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/embedding_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "kernels/element_wise/operands.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kFwdRowsPerTask = 32;

template <class Table, class X>
void sum_rows(const EmbeddingSumFwdArgs& args, int64_t begin, int64_t end) {
  const F32Tag d;
  const int64_t C = args.C;
  X* x = elements<X>(args.x);
  for (int64_t t = begin; t < std::min(end, args.num_tokens); ++t) {
    const Table* rows[kMaxEmbeddingTables];
    for (int k = 0; k < args.num_tables; ++k) {
      const auto index = static_cast<size_t>(k);
      int64_t row = elements<int32_t>(args.ids[index])[t];
      if (k == 0) row = row_in_first_table(row, args.first_row, args.num_rows);
      rows[k] = row < 0 ? nullptr : elements<Table>(args.tables[index]) + row * C;
    }
    for_each_vector(d, 0, C, [&](auto access, int64_t c) HWY_ATTR {
      F32Vec sum = rows[0] == nullptr ? hn::Zero(d) : access.load(d, rows[0] + c);
      for (int k = 1; k < args.num_tables; ++k) sum = hn::Add(sum, access.load(d, rows[k] + c));
      access.store(d, sum, x + t * C + c);
    });
  }
  const int64_t first_unused = std::max(begin, args.num_tokens);
  if (first_unused < end) {
    std::memset(static_cast<void*>(x + first_unused * C), 0,
                static_cast<size_t>((end - first_unused) * C) * sizeof(X));
  }
}

void embedding_sum_fwd(const EmbeddingSumFwdArgs& args) {
  with_fast_type(args.tables[0].dtype, [&](auto table) HWY_ATTR {
    with_fast_type(args.x.dtype, [&](auto x) HWY_ATTR {
      parallel_for((args.T + kFwdRowsPerTask - 1) / kFwdRowsPerTask, [&](int64_t task, int) {
        const int64_t begin = task * kFwdRowsPerTask;
        sum_rows<decltype(table), decltype(x)>(args, begin, std::min(args.T, begin + kFwdRowsPerTask));
      });
    });
  });
}

// The range of rows and columns of a table's gradient that one task computes.
struct Block {
  int64_t first_row, end_row, first_column, end_column;
};

// Returns the first (id, token) pair of an id, or the position at which it would be inserted.
const IdOfToken* first_of(std::span<const IdOfToken> sorted, int64_t id) {
  return std::lower_bound(sorted.data(), sorted.data() + sorted.size(), id,
                          [](const IdOfToken& pair, int64_t wanted) { return pair.id < wanted; });
}

// Adds the gradients of the tokens to each row of a block of the table's gradient, in the order of the tokens.
template <class DX>
void gather_gradients(const EmbeddingBwdArgs& args, const Block& block) {
  const F32Tag d;
  const DX* d_x = elements<DX>(args.d_x);
  float* d_table = elements<float>(args.d_table);
  const int64_t width = block.end_column - block.first_column;
  const std::span<const IdOfToken> sorted(static_cast<const IdOfToken*>(args.sorted.data),
                                          static_cast<size_t>(args.T));
  const IdOfToken* next = first_of(sorted, args.first_row + block.first_row);
  const IdOfToken* end = sorted.data() + sorted.size();
  for (int64_t v = block.first_row; v < block.end_row; ++v) {
    const int64_t id = args.first_row + v;
    float* row = d_table + v * args.C + block.first_column;
    if (args.accumulate == Accumulate::kOverwrite)
      std::memset(row, 0, static_cast<size_t>(width) * sizeof(float));
    for (; next != end && next->id == id; ++next) {
      if (id == args.padding_id) continue;
      const DX* term = d_x + int64_t{next->token} * args.C + block.first_column;
      for_each_vector(d, 0, width, [&](auto access, int64_t c) HWY_ATTR {
        access.store(d, hn::Add(access.load(d, row + c), access.load(d, term + c)), row + c);
      });
    }
  }
}

// The sizes of the block of the gradient that one task computes. In a table of few rows, many tokens add to each row, so the tasks divide
// the columns as well. Each element is computed by one task in the same order, so the division does not change the bits.
constexpr int64_t kBwdRowsPerTask = 64;
constexpr int64_t kBwdColumnsPerTask = 128;

void embedding_bwd(const EmbeddingBwdArgs& args) {
  const int64_t width = args.V <= 8 * kBwdRowsPerTask ? kBwdColumnsPerTask : args.C;
  const int64_t row_tasks = (args.V + kBwdRowsPerTask - 1) / kBwdRowsPerTask;
  const int64_t column_tasks = (args.C + width - 1) / width;
  with_fast_type(args.d_x.dtype, [&](auto d_x) HWY_ATTR {
    parallel_for(row_tasks * column_tasks, [&](int64_t task, int) {
      const int64_t row = task / column_tasks * kBwdRowsPerTask;
      const int64_t column = task % column_tasks * width;
      gather_gradients<decltype(d_x)>(
          args, {row, std::min(args.V, row + kBwdRowsPerTask), column, std::min(args.C, column + width)});
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(embedding_sum_fwd);
HWY_EXPORT(embedding_bwd);

namespace {

void check_ids(const char* kernel, const ConstView& ids) {
  PLIMSOLL_CHECK(ids && ids.dtype == DType::kI32, "{}: ids must be present and i32", kernel);
}

}  // namespace

void embedding_sum_fwd_cpu(const EmbeddingSumFwdArgs& args) {
  constexpr const char* kKernel = "embedding_sum_fwd_cpu";
  PLIMSOLL_CHECK(1 <= args.num_tables && args.num_tables <= kMaxEmbeddingTables,
                 "{}: the number of tables must be 1 to {}, but is {}", kKernel, kMaxEmbeddingTables,
                 args.num_tables);
  PLIMSOLL_CHECK(0 <= args.num_tokens && args.num_tokens <= args.T,
                 "{}: a batch of {} rows cannot contain {} tokens", kKernel, args.T, args.num_tokens);
  for (int k = 0; k < args.num_tables; ++k) {
    const auto index = static_cast<size_t>(k);
    fast_type_of(kKernel, {{"table", args.tables[0]}, {"table", args.tables[index]}});
    check_ids(kKernel, args.ids[index]);
  }
  fast_type_of(kKernel, {{"x", args.x}});
  HWY_DYNAMIC_DISPATCH(embedding_sum_fwd)(args);
}

void embedding_bwd_cpu(const EmbeddingBwdArgs& args) {
  constexpr const char* kKernel = "embedding_bwd_cpu";
  fast_type_of(kKernel, {{"d_x", args.d_x}});
  check_ids(kKernel, args.sorted);
  PLIMSOLL_CHECK(args.d_table && args.d_table.dtype == DType::kF32, "{}: d_table must be present and f32",
                 kKernel);
  HWY_DYNAMIC_DISPATCH(embedding_bwd)(args);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
