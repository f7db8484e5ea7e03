// Numeric derivatives for tests of backward kernels. Thread-safe: no state.
#pragma once

#include <functional>

#include "tests/support/compare.h"

namespace plimsoll::test {

// Derivative of loss() by element i of x (f64), five points: the error is h^4/30 of the fifth derivative,
// here about 1e-12, and 3 eps / (2 h) of the loss for rounding, about 2e-13.
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

// What gradients of terms of order 1 are held to.
inline constexpr double kFiniteDifferenceLimit = 1e-10;

}  // namespace plimsoll::test
