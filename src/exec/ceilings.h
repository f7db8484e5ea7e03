// What the device at hand can do at most, measured on it: the yardstick of a profile. Not what a plan is made
// with: that comes from src/target, so that it is the same everywhere. Not thread-safe: it drives the device.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "plan/build/plan.h"

namespace plimsoll {

struct Ceilings {
  double product_gflops =
      0;  // of a large square product in the run's types, 1e9 operations a second; 0: not known
  double copy_gb_per_s = 0;  // of a copy beyond the caches, bytes read plus bytes written; 0: not known
};

// The type in which the plan's products are taken.
DType product_type(const PlanRequest& request);

// The largest n, at most `most` and a multiple of 128, for which three square matrices of that type and
// `scratch_bytes` fit into so many bytes; 0 where none of at least 512 does.
int64_t ceiling_product_size(int64_t bytes, int64_t scratch_bytes, DType dtype, int64_t most);

// Numbers evenly spread over [-1, 1): what an operand's bits look like decides what a product draws in power,
// and so how fast it runs.
void fill_with_noise(std::span<std::byte> bytes, DType dtype);

}  // namespace plimsoll
