// Pearson's chi-square test of the frequencies of random draws, for tests of sampling.
#pragma once

#include <cmath>

namespace plimsoll {

// Returns the value that a chi-square statistic with n degrees of freedom exceeds with a probability of 10^-6 (Wilson and Hilferty,
// 1931).
inline double chi_square_limit(double n) {
  const double c = 2.0 / (9.0 * n);
  return n * std::pow(1.0 - c + 4.75 * std::sqrt(c), 3.0);
}

}  // namespace plimsoll
