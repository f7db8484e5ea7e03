// Runs a test body once for every instruction set that the Highway kernels are compiled for and this CPU has,
// fastest first. Not thread-safe: the choice is global. The kernel's library must be linked (it brings
// Highway along).
#pragma once

#include "device/cpu/simd_targets.h"
// The selection above comes before any header of Highway.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>

namespace plimsoll::test {

// Calls body() under each instruction set, with its name in the trace of failures. Fails if there is none.
template <typename Body>
void for_each_simd_target(Body&& body) {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  EXPECT_FALSE(targets.empty());
  for (const int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace plimsoll::test
