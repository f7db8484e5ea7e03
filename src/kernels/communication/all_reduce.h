// all_reduce: y = sum over the ranks r of x_r, element by element, for each tensor of a list; in place.
//
// Shapes: any; every rank passes the same list. Types: f64, f32, bf16, f16, one for all tensors of the list.
// Accumulation: in the type of the tensors, in fp32 for bf16 and f16, which are rounded once. The order of the sums is fixed
// by the list and the number of ranks N, and every rank gets the same bits.
// Error bound: |y - exact| <= (N - 1) u sum_r |x_r| with the unit roundoff u of the type of accumulation, and the rounding of
// y to the type of the tensors. (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 4.2.)
// Aliasing: y is x. Scratch: communication_catalog.h. Repeatable.
// Cost: each rank sends 2 (N - 1) / N of the bytes.
// Errors: kDevice, as Communicator::all_reduce().
#pragma once

#include <span>

#include "base/view.h"
#include "device/comm/communicator.h"

namespace plimsoll {

struct ReducedTensor {
  View data;
  int64_t count = 0;  // elements
};

struct AllReduceArgs {
  Communicator* communicator = nullptr;
  std::span<const ReducedTensor> tensors = {};
  View scratch = {};
};

// Copies the small tensors of the list into scratch and reduces them as one, and each other tensor where it is.
void all_reduce_cpu(const AllReduceArgs& args);
// Gathers the tensors of all ranks and adds them in double precision, in the order of the ranks.
void all_reduce_ref(const AllReduceArgs& args);

}  // namespace plimsoll
