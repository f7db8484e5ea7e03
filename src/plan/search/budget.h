// What to compute again: so that a run fits into a number of bytes at the least cost in time, or so that it
// needs as few bytes as a share of a step's time buys. Every figure is that of a plan made for it. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// A way to recompute and what its plan says.
struct RecomputeOutcome {
  std::string name = {};  // of the policy, or "chosen"
  RecomputeChoice choice = {};
  int64_t total_bytes = 0;
  double step_ms = 0;  // estimated, of the whole step
};

struct BudgetChoice {
  int64_t budget_bytes = 0;
  RecomputeOutcome best = {};
  std::vector<RecomputeOutcome> policies = {};  // none, cheap, full: what it was compared with
  int num_plans = 0;                            // of the whole model
};

// The choice whose plan needs at most `budget_bytes` in total and whose step is estimated to be the shortest:
// never longer than that of a policy which fits. Blocks of one kind share a menu of unbeaten sets of kept
// values (keep_menu.h); a dynamic program takes one for each block (keep_options.h); the planner says what
// the result needs, and the program is run again under a limit corrected by the difference, until the budget
// is used up. Requires: request.train. Errors: kWillNotFit with the smallest total found, where nothing fits.
// Cost: under a second for BERT-large.
BudgetChoice choose_recompute(const PlanRequest& request, int64_t budget_bytes);

// How much longer than with RecomputePolicy::kCheap --recompute selective lets a step be, by the estimate.
inline constexpr double kSelectiveShareOfStep = 0.03;

// The choice whose plan needs the fewest bytes among those whose step is estimated to be at most
// (1 + kSelectiveShareOfStep) times as long as with RecomputePolicy::kCheap; of choices that need equally
// many the fastest, so that nothing runs again where it frees nothing. Found by the same menu and dynamic
// program, whose limit is halved towards the time that may be spent. Never more bytes than kCheap. The budget
// of the result has no limit. Requires: request.train. Cost: as choose_recompute.
BudgetChoice choose_selective(const PlanRequest& request);

// What was chosen and what it was compared with, as a note for people; `asked`: the argument and its value.
std::string budget_words(const BudgetChoice& choice, std::string_view asked);

}  // namespace plimsoll
