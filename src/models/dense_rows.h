// The inner loops of dense linear algebra, which work on rows of matrices in double precision. Internal to models; pure functions.
#pragma once

#include <numeric>
#include <span>

namespace plimsoll::internal {

inline double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

// Adds factor * x to y.
inline void add_scaled(std::span<double> y, double factor, std::span<const double> x) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

}  // namespace plimsoll::internal
