// Keeps the largest of several errors, for tests that compare it with a limit. The standard library's maximum of
// `worst` and NaN is `worst`, and comparisons with `>` ignore a NaN, so that results which are all NaN would seem to
// have no error. Here the largest error becomes NaN and stays NaN, so that every comparison with a limit fails. Pure.
#pragma once

#include <cmath>

namespace plimsoll::test {

// Sets `worst` to `error` if `error` is larger or NaN, unless `worst` is NaN already. Returns whether `worst` was set.
inline bool keep_worst(double& worst, double error) {
  if (std::isnan(worst) || error <= worst) return false;
  worst = error;
  return true;
}

}  // namespace plimsoll::test
