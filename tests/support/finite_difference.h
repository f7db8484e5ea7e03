// Numeric derivatives for tests of backward kernels. Thread-safe (no state).
#pragma once

#include <functional>

#include "tests/support/compare.h"

namespace plimsoll::test {

// Returns the derivative of loss() with respect to element i of x (f64), by a five-point formula with the step h = 2^-10. The truncation
// error is h^4/30 times the fifth derivative, about 1e-12 here, and rounding adds 3 eps / (2 h) times the loss, about 2e-13, where eps is
// the relative rounding error of fp64.
inline double finite_difference(GuardedBuffer& x, int64_t i, const std::function<double()>& loss) {
  constexpr double kH = 0x1p-10;
  double* const element = x.view().as<double>() + i;
  const double center = *element;
  const auto at = [&](double offset) {
    *element = center + offset;
    const double value = loss();
    *element = center;
    return value;
  };
  return (at(-2 * kH) - 8.0 * at(-kH) + 8.0 * at(kH) - at(2 * kH)) / (12.0 * kH);
}

// The largest error that tests accept between a computed gradient and a numeric derivative, if the terms of the gradient are of order 1.
inline constexpr double kFiniteDifferenceLimit = 1e-10;

}  // namespace plimsoll::test
