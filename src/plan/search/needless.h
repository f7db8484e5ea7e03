// Accumulation that a run could do without. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/compile/plan.h"

namespace plimsoll {

// A sentence for people where the plan accumulates although a larger micro-batch of the same effective batch
// fits into the memory that is allowed and is estimated to be faster by 3 % or more; "" elsewhere, and where
// no limit is known. `free_bytes` is the limit where the request has none: what the machine can give. Batches
// of the longest sequences are taken for the larger one. Cost: nothing without accumulation, else up to four
// plans.
std::string needless_accumulation(const Plan& plan, std::optional<int64_t> free_bytes = {});

}  // namespace plimsoll
