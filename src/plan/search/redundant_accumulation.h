// Detects gradient accumulation that a run does not need. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/compile/plan.h"
#include "plan/request/request_of.h"

namespace plimsoll {

// Returns a note for the user if the plan accumulates although a larger micro-batch of the same effective
// batch fits into the memory limit and is estimated to be faster by 3 % or more. Returns "" otherwise, and
// if no limit is known. `free_bytes` is the limit if the request has none: the free memory of the machine.
// The larger batch is planned with sequences of the largest length. Cost: nothing without accumulation,
// otherwise up to four plans.
std::string redundant_accumulation(const Plan& plan, const RunSpec& run,
                                   std::optional<int64_t> free_bytes = {});

}  // namespace plimsoll
