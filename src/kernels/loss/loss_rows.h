// Distributes the rows of CPU loss kernels over threads. Rows are never split. The limits of blocks depend
// only on the sizes, so a sum over rows has the same bits for any number of threads. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "base/view.h"
#include "device/cpu/parallel.h"
#include "kernels/loss/nll.h"

namespace plimsoll {

// The smallest number of elements per block of rows. Their exponentials take about 8 us on one core of an Ice Lake Xeon (loss_bench: 15.6
// million elements in 14.6 ms of CPU time). Waking a second thread for less work does not save time.
inline constexpr int64_t kLossBlockElements = 8192;

inline int64_t num_row_blocks(int64_t num_rows, int64_t num_classes) {
  return std::clamp<int64_t>(num_rows * num_classes / kLossBlockElements, 1,
                             std::clamp<int64_t>(num_rows, 1, kLossRowBlocks));
}

// Calls body(row) for every row. Requires: body does not throw.
template <typename Body>
void for_each_row(int64_t num_rows, int64_t num_classes, Body&& body) {
  const int64_t blocks = num_row_blocks(num_rows, num_classes);
  parallel_for(blocks, [&](int64_t block, int /*thread*/) {
    for (int64_t row = num_rows * block / blocks; row < num_rows * (block + 1) / blocks; ++row) body(row);
  });
}

// The loss of one or more rows, and the part of it that is the z-loss.
struct RowLoss {
  double loss = 0.0;
  double z_loss = 0.0;
  RowLoss& operator+=(const RowLoss& other) {
    loss += other.loss;
    z_loss += other.z_loss;
    return *this;
  }
};

// Returns the sum of body(row) over all rows, where body(row) or body(row, thread) returns a double or a RowLoss. Requires: body does not
// throw.
template <typename Sum = double, typename Body>
Sum sum_over_rows(int64_t num_rows, int64_t num_classes, Body&& body) {
  const int64_t blocks = num_row_blocks(num_rows, num_classes);
  Sum partial[kLossRowBlocks] = {};
  parallel_for(blocks, [&](int64_t block, [[maybe_unused]] int thread) {
    Sum sum{};
    for (int64_t row = num_rows * block / blocks; row < num_rows * (block + 1) / blocks; ++row) {
      if constexpr (std::is_invocable_v<Body, int64_t, int>) {
        sum += body(row, thread);
      } else {
        sum += body(row);
      }
    }
    partial[block] = sum;
  });
  Sum total{};
  for (int64_t block = 0; block < blocks; ++block) total += partial[block];
  return total;
}

inline void store_loss(const View& loss, double value, Accumulate accumulate) {
  loss.store(0, accumulate == Accumulate::kAdd ? loss.load(0) + value : value);
}

// Checks that every label is below the number of classes. Errors: kInternal if one is not, because the code that reads data has already
// refused such labels.
inline void check_labels(const int32_t* labels, int64_t num_rows, int64_t num_classes) {
  for (int64_t b = 0; b < num_rows; ++b) {
    PLIMSOLL_CHECK(labels[b] < num_classes, "row {} has label {}, but there are only {} classes", b,
                   labels[b], num_classes);
  }
}

}  // namespace plimsoll
