// What to change when a plan does not fit: every suggestion was planned anew, none is a rule of thumb. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"

namespace plimsoll {

// Smaller micro-batches of the same effective batch, recomputing more, smaller batches of evaluation, shorter
// sequences, and the methods of the table that need less memory: precisions, states in fewer bits or fewer of
// them, offloading, logits in chunks; of each kind the mildest that fits, or else the strongest. Where none
// of them alone fits, sets of methods as search_fit() finds them. Those that fit stand first: what trains the
// same, then what rounds, then what learns something else, each fastest first; the others by their bytes.
// Cost: about twenty plans, and the search of a budget where recomputing helps; where nothing alone fits,
// some hundred.
std::vector<Suggestion> suggest_changes(const Plan& plan, int64_t limit_bytes);

// By how much something is too large: "698.7 MiB", rounded as every table rounds, or "12 bytes" where that
// would be nothing.
std::string shortage_words(int64_t bytes);

// Throws kWillNotFit when the plan has a limit and exceeds it. The message has the bytes needed and allowed,
// where the peak is and what fills it, and the suggestions. Cost: nothing when the plan fits.
void require_fit(const Plan& plan);

}  // namespace plimsoll
