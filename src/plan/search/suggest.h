// Suggests what to change when a plan does not fit. Every suggestion was planned; none is a rule of thumb.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"

namespace plimsoll {

// Returns suggestions: smaller micro-batches of the same effective batch, more recomputation, smaller
// evaluation batches, shorter sequences, and the methods of the table that need less memory (precisions,
// smaller or fewer states, offloading, logits in chunks). Of each kind it returns the mildest change that
// fits, or else the strongest. If none of them fits alone, it returns sets of methods as search_fit() finds
// them. Suggestions that fit come first: those that train the same, then those that round, then those that
// learn something else, each fastest first; the others follow by their bytes. Cost: about twenty plans, and
// the search of a budget if recomputation helps; some hundred if no single change fits.
// Requires: `plan` is that of request_of(run).
std::vector<Suggestion> suggest_changes(const Plan& plan, const RunSpec& run, int64_t limit_bytes,
                                        const PlanLabels& labels = {});

// Returns the text for a shortage of bytes: "698.7 MiB", rounded as in all tables, or "12 bytes" if that
// would be rounded to nothing.
std::string format_shortage(int64_t bytes);

// Returns why a plan exceeds its limit: the bytes needed and allowed, the peak and its contents, and the
// suggestions. "" if the plan fits. Cost: that of suggest_changes(), nothing if the plan fits.
std::string describe_shortage(const Plan& plan, const RunSpec& run, const PlanLabels& labels = {});

// Throws kWillNotFit with that text if the plan exceeds its limit.
void require_fit(const Plan& plan, const RunSpec& run, const PlanLabels& labels = {});

}  // namespace plimsoll
