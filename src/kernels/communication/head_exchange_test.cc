#include "kernels/communication/head_exchange.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "kernels/communication/communication_catalog.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// The number of columns (16-bit elements) of each part of a matrix. It has the three parts queries, keys and values, or only the first
// part.
struct Columns {
  int64_t first;
  int64_t others;
  int64_t all() const { return first + 2 * others; }
};

// Returns the value of the element in this row and column of the complete matrix, of which each rank has a part.
uint16_t element_at(int64_t row, int64_t column) {
  return static_cast<uint16_t>(row * 251 + column + 1);
}

// Returns the columns that belong to a rank, in order.
std::vector<int64_t> columns_of(const Columns& columns, int rank, int num_ranks) {
  std::vector<int64_t> own;
  int64_t begin = 0;
  for (const int64_t part : {columns.first, columns.others, columns.others}) {
    const int64_t share = part / num_ranks;
    for (int64_t i = 0; i < share; ++i) own.push_back(begin + rank * share + i);
    begin += part;
  }
  return own;
}

// Returns the rows of a rank with all columns.
std::vector<uint16_t> rows_of(const Columns& columns, int64_t rows, int rank) {
  std::vector<uint16_t> matrix;
  for (int64_t row = rank * rows; row < (rank + 1) * rows; ++row) {
    for (int64_t column = 0; column < columns.all(); ++column) matrix.push_back(element_at(row, column));
  }
  return matrix;
}

// Returns all rows of the columns of a rank.
std::vector<uint16_t> heads_of(const Columns& columns, int64_t rows, int rank, int num_ranks) {
  std::vector<uint16_t> matrix;
  for (int64_t row = 0; row < num_ranks * rows; ++row) {
    for (const int64_t column : columns_of(columns, rank, num_ranks))
      matrix.push_back(element_at(row, column));
  }
  return matrix;
}

template <typename Kernel>
std::vector<uint16_t> exchanged(const Kernel& kernel, int64_t scratch_bytes, Communicator& ranks,
                                const Columns& columns, int64_t rows, HeadExchange direction,
                                const std::vector<uint16_t>& x) {
  const int64_t size = ranks.size();
  std::vector<uint16_t> y(x.size());
  std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes));
  kernel({.communicator = &ranks,
          .direction = direction,
          .x = {x.data(), DType::kBF16},
          .y = {y.data(), DType::kBF16},
          .rows = rows,
          .share_bytes = {columns.first / size * 2, columns.others / size * 2, columns.others / size * 2},
          .scratch = {scratch.data(), DType::kU8}});
  return y;
}

TEST(HeadExchange, ExchangesRowsForColumnsAndBack) {
  for (const int num_ranks : {1, 2, 3, 4}) {
    for (const Columns& columns : {Columns{24, 12}, Columns{36, 0}}) {
      for (const int64_t rows : {0, 1, 5, 400}) {
        const AllReduceProblem problem{.ranks = num_ranks,
                                       .largest_bytes = num_ranks * rows * columns.all() / num_ranks * 2};
        const auto check = [&](const auto& kernel, int64_t scratch_bytes) {
          testing::run_on_ranks(num_ranks, [&](Communicator& ranks) {
            const std::vector<uint16_t> own_rows = rows_of(columns, rows, ranks.rank());
            const std::vector<uint16_t> own_heads = heads_of(columns, rows, ranks.rank(), num_ranks);
            EXPECT_EQ(
                exchanged(kernel, scratch_bytes, ranks, columns, rows, HeadExchange::kToHeads, own_rows),
                own_heads);
            EXPECT_EQ(
                exchanged(kernel, scratch_bytes, ranks, columns, rows, HeadExchange::kToRows, own_heads),
                own_rows);
          });
        };
        check(head_exchange_ref, catalog_rows::all_reduce_ref_scratch(problem));
        FastRows(head_exchange_ref).for_each_on_best_target(DType::kF32, problem, [&](const auto& kernel) {
          check(kernel, kernel.scratch_bytes());
        });
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
