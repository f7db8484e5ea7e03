// Runs a test body once for each instruction set that the Highway kernels are compiled for and that this CPU
// supports, fastest first. Not thread-safe, because the selection is global. A test must link the kernel's
// library, which links Highway.
#pragma once

#include "device/cpu/simd_targets.h"
// simd_targets.h selects the instruction sets, so it must be included before any header of Highway.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>

namespace plimsoll::test {

// Calls body() for each instruction set and adds its name to failure messages. Fails if there is none.
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
