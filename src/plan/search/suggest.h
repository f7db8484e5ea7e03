// Suggests changes to the arguments if a plan does not fit into memory. Each suggestion has been planned, so its memory is known exactly.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"
#include "plan/search/shared_graphs.h"

namespace plimsoll {

// Returns suggestions: smaller micro-batches of the same effective batch, more recomputation, smaller evaluation batches, shorter
// sequences, and other training methods that need less memory (precisions, smaller or fewer states, offloading, logits in chunks). Of each
// of these kinds, it returns the smallest change with which the plan fits, or the largest one if the plan fits with none. If no single
// change suffices, it adds sets of training methods found by search_fit(). Suggestions that fit come first: runs that compute the same,
// then runs that round differently, then runs that learn something else, each group from the fastest on. Suggestions that do not fit
// follow, ordered by their bytes. Cost: about twenty plans, and the search of a budget if recomputation helps; some hundred if no single
// change fits. Requires: `plan` is that of request_of(run).
std::vector<Suggestion> suggest_changes(const Plan& plan, const RunSpec& run, int64_t limit_bytes,
                                        const PlanLabels& labels = {});

// Returns a text for a number of missing bytes: "698.7 MiB", rounded as in all tables, or "12 bytes" if it would be rounded to zero.
std::string format_shortage(int64_t bytes);

// Returns an explanation why a plan exceeds its memory limit: the bytes needed and allowed, the peak and its contents, and the
// suggestions. Returns "" if the plan fits. Cost: that of suggest_changes(), or nothing if the plan fits.
std::string describe_shortage(const Plan& plan, const RunSpec& run, const PlanLabels& labels = {});

// Returns an explanation why a plan exceeds its memory limit, with suggestions that were already computed by suggest_changes().
std::string describe_shortage(const Plan& plan, const std::vector<Suggestion>& suggestions,
                              const PlanLabels& labels);

// Throws kWillNotFit with the text of describe_shortage() if the plan exceeds its memory limit.
void require_fit(const Plan& plan, const RunSpec& run, const PlanLabels& labels = {});

// Returns a note for the user if the plan accumulates although a larger micro-batch of the same effective batch fits into the memory
// limit and is estimated to be faster by 3 % or more. Returns "" otherwise, and if no limit is known. If the request has no limit,
// `free_bytes` is used, the free memory of the machine. The larger batch is planned with sequences of the largest length. Cost: nothing
// without accumulation, otherwise up to four plans.
std::string redundant_accumulation(const Plan& plan, const RunSpec& run,
                                   std::optional<int64_t> free_bytes = {});

// Returns at most three changes that each save at least 1 % of the total bytes, the best first. Changes that keep the result, up to
// rounding, come before those that train something else; within each group, the change that saves the most bytes per percent of additional
// time comes first. A change that makes the step faster is treated as one that costs 1 %. In the returned changes, `fits` is true if the
// changed plan needs no more bytes than the current one. `num_threads` threads plan at the same time; the result does not depend on their
// number. `shared` may contain the graphs of the plan. Requires: `plan` is that of request_of(run). Cost: three to seven plans.
std::vector<Suggestion> cheapest_savings(const Plan& plan, const RunSpec& run, SharedGraphs& shared,
                                         int num_threads = 1);

}  // namespace plimsoll
