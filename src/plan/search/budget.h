// Chooses which values the backward pass recomputes: either the fastest choice that fits into a number of bytes, or the choice that needs
// the fewest bytes within a given increase of the time of a step. The reported memory and times are those of a plan that was made with
// the choice. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plan/request/request_of.h"

namespace plimsoll {

// A set of recomputed values, or a policy that selects them, with the memory and the time of its plan.
struct RecomputeOutcome {
  std::string name = {};  // name of the policy, or "chosen" if values were chosen one by one
  RecomputeChoice choice = {};
  int64_t total_bytes = 0;
  double step_ms = 0;  // estimated time of the whole step
};

struct BudgetChoice {
  int64_t budget_bytes = 0;
  RecomputeOutcome best = {};
  // the results of the policies none, cheap and full, for comparison
  std::vector<RecomputeOutcome> policies = {};
  int num_plans = 0;  // number of plans of the whole model that the search made
};

// Chooses the values to recompute with which the plan needs at most `budget_bytes` in total and the estimated step is the shortest. It is
// never longer than with a fixed policy that fits. All blocks of one kind have the same options, which are the Pareto-optimal sets of
// values to keep (recompute_options.h), and dynamic programming selects one option per block. The planner then computes the real bytes of
// the result, and dynamic programming runs again with a limit that is corrected by the difference, until the budget is used up. Requires:
// request.train. Errors: kWillNotFit with the smallest total found if nothing fits; `labels` name the argument that shortens the sequences.
// Cost: under a second for BERT-large.
BudgetChoice choose_recompute(const PlanRequest& request, int64_t budget_bytes,
                              const PlanLabels& labels = {});

// --recompute selective may make a step longer than RecomputePolicy::kCheap does, by this share of the estimated step time. The documents
// promise at most 4 %, which remains true if the estimated time of recomputation is too short by up to a quarter.
inline constexpr double kSelectiveShareOfStep = 0.03;

// Chooses the values to recompute with which the plan needs the fewest bytes, while the estimated step is at most (1 +
// kSelectiveShareOfStep) times as long as with RecomputePolicy::kCheap. Of sets with equal bytes it returns the fastest, so that nothing is
// recomputed without freeing memory. It uses the same options and dynamic programming as choose_recompute(), and finds by bisection the
// limit of live bytes for which recomputation takes the allowed time. The result never needs more bytes than kCheap.
// BudgetChoice::budget_bytes is unlimited in this case. Requires: request.train. Cost: as choose_recompute().
BudgetChoice choose_selective(const PlanRequest& request);

// Returns the choice that the arguments of the run ask for. Requires: recompute_chosen(run) is not kByPolicy; `request` is that of the
// run, apart from its batch sizes. Errors and cost: as choose_recompute().
BudgetChoice choose_recompute_of(const RunSpec& run, const PlanRequest& request,
                                 const PlanLabels& labels = {});

// Returns the argument that requests the choice, with its value, such as "--recompute selective" or "--recompute_budget ...".
std::string recompute_argument(const Arguments& arguments);

// Returns a note for the user that states the choice and the policies that it was compared with. `asked` is the text of
// recompute_argument().
std::string describe_budget_choice(const BudgetChoice& choice, std::string_view asked);

}  // namespace plimsoll
