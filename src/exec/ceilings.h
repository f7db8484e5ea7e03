// The highest measured rates of the device, to which a profile compares the ops. Plans do not use them: their rates come
// from src/hardware, so that a plan is the same on every machine. Not thread-safe: measuring uses the device.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct Ceilings {
  // The rate of a large square product in the run's types; 0 if it is not known.
  double product_gflops = 0;
  // Bytes read plus bytes written per second by a copy that is larger than the caches; 0 if it is not known.
  double copy_gb_per_s = 0;
};

// Returns the type in which the plan computes products.
DType product_type(const PlanRequest& request);

// Returns the size of the square product to measure: the largest n, at most `most` and a multiple of 128, for which three
// n x n matrices of this type and `scratch_bytes` fit into `bytes`. Returns 0 if that would be less than 512.
int64_t ceiling_product_size(int64_t bytes, int64_t scratch_bytes, DType dtype, int64_t most);

// Fills operands with numbers that are uniform over [-1, 1). The bits of the operands determine how much power a product
// draws, and so how fast it runs.
void fill_with_noise(std::span<std::byte> bytes, DType dtype);

}  // namespace plimsoll
