// Runs a test body once per instruction set that Highway would choose between on this machine. For tests
// only; changes the program's choice of instruction set while it runs, so not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/targets.h"

namespace plimsoll::test {

// Returns how many instruction sets there were (the baseline is always one).
template <typename Body>
int for_each_target(Body&& body) {
  const int64_t supported = hwy::SupportedTargets();
  const int64_t avx3_and_better = (HWY_AVX3 << 1) - 1;
  const int64_t avx2_and_better = (HWY_AVX2 << 1) - 1;
  int count = 0;
  int64_t previous = 0;
  for (const int64_t hidden : {int64_t{0}, avx3_and_better, avx2_and_better}) {
    const int64_t visible = supported & ~hidden;
    if (visible == previous) continue;
    previous = visible;
    SCOPED_TRACE(testing::Message() << "Highway targets " << visible);
    hwy::SetSupportedTargetsForTest(visible);
    hwy::GetChosenTarget().DeInit();
    body();
    ++count;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  return count;
}

}  // namespace plimsoll::test
