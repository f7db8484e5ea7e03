// The scratch memory of the loss kernels: the host-only part of their contracts. Thread-safe: pure functions.
#pragma once

#include <cstdint>

namespace plimsoll {

// On a GPU: each row's loss as an f64, until one block adds them.
constexpr int64_t row_loss_cuda_scratch_bytes(int64_t num_rows) {
  return num_rows * 8;
}

}  // namespace plimsoll
