#include <cmath>

#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {

void fill_ref(const FillArgs& args) {
  for (int64_t i = 0; i < args.count; ++i) args.x.store(i, args.value);
}

void sum_of_squares_ref(const SumOfSquaresArgs& args) {
  double sum = args.accumulate == Accumulate::kAdd ? args.out.load(0) : 0.0;
  for (int64_t i = 0; i < args.count; ++i) sum += args.x.load(i) * args.x.load(i);
  args.out.store(0, sum);
}

void first_non_finite_ref(const FirstNonFiniteArgs& args) {
  int64_t index = -1;
  for (int64_t i = 0; i < args.count && index < 0; ++i) {
    if (!std::isfinite(args.x.load(i))) index = i;
  }
  args.index.as<int64_t>()[0] = index;
}

}  // namespace plimsoll
