// What a plan that fits could do without: the cheapest ways to use less memory. Every figure is that of a
// plan made for it. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"

namespace plimsoll {

// At most three changes that save 1 % of the total or more, the cheapest first: those that leave the result
// as it is, up to rounding, before those that train on something else; among these the one that saves most
// for each percent of time that it costs, where saving time counts as costing 1 %. `fits` is about the total
// as it is. Cost: three to seven plans.
std::vector<Suggestion> cheapest_savings(const Plan& plan);

}  // namespace plimsoll
