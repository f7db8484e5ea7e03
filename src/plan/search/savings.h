// Finds the cheapest ways to use less memory, for a plan that fits. Every figure is that of a plan made for
// it. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"

namespace plimsoll {

// Returns at most three changes that save 1 % of the total or more, the cheapest first. Changes that keep
// the result, up to rounding, come before those that train something else; among these, the change that
// saves most per percent of time comes first, and a change that saves time counts as one that costs 1 %.
// `fits` compares with the current total. Requires: `plan` is that of request_of(run). Cost: three to seven plans.
std::vector<Suggestion> cheapest_savings(const Plan& plan, const RunSpec& run);

}  // namespace plimsoll
