// The most that the device at hand can do, measured: what a profile compares the ops with. Plans do not use
// it: their rates come from src/target, so that a plan is the same on every machine. Not thread-safe: it
// drives the device.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct Ceilings {
  // Of a large square product in the run's types; 0: not known.
  double product_gflops = 0;
  // Bytes read plus bytes written by a copy that is larger than the caches; 0: not known.
  double copy_gb_per_s = 0;
};

// The type in which the plan's products are taken.
DType product_type(const PlanRequest& request);

// The size of the square product to measure: the largest n, at most `most` and a multiple of 128, for which
// three n x n matrices of this type and `scratch_bytes` fit into `bytes`. 0 where that would be less than
// 512.
int64_t ceiling_product_size(int64_t bytes, int64_t scratch_bytes, DType dtype, int64_t most);

// Fills operands with numbers evenly spread over [-1, 1). Their bits matter: they decide how much power a
// product draws, and so how fast it runs.
void fill_with_noise(std::span<std::byte> bytes, DType dtype);

}  // namespace plimsoll
