// The largest of some errors, for tests that hold one number to a limit. The standard library's maximum of
// `worst` and NaN is `worst`, and a comparison with `>` passes a NaN over, so that a result of NaNs alone
// seems to have no error. Here a NaN stays, and no limit is kept by it. Pure.
#pragma once

#include <cmath>

namespace plimsoll::test {

// `worst` becomes the larger of the two, or NaN where either is. Returns whether it became `error`.
inline bool keep_worst(double& worst, double error) {
  if (std::isnan(worst) || error <= worst) return false;
  worst = error;
  return true;
}

}  // namespace plimsoll::test
