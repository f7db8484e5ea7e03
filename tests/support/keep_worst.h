// The largest of several errors, for tests that compare one number with a limit. The standard library's
// maximum of `worst` and NaN is `worst`, and a comparison with `>` ignores a NaN, so results that are all NaN
// would seem to have no error. Here a NaN stays, so that every comparison with a limit fails. Pure.
#pragma once

#include <cmath>

namespace plimsoll::test {

// Sets `worst` to the larger of the two, or to NaN if either is NaN. Returns whether `worst` was set to
// `error`.
inline bool keep_worst(double& worst, double error) {
  if (std::isnan(worst) || error <= worst) return false;
  worst = error;
  return true;
}

}  // namespace plimsoll::test
