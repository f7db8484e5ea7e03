// What to compute again so that a run fits into a number of bytes at the least cost in time. Every figure is
// that of a plan made for it. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/build/plan.h"

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
  std::vector<RecomputeOutcome> policies = {};  // none, cheap, selective, full: what it was compared with
  int num_plans = 0;                            // of the whole model
};

// The choice whose plan needs at most `budget_bytes` in total and whose step is estimated to be the shortest:
// never longer than that of a policy which fits. Blocks of one kind share a menu of unbeaten sets of kept
// values (keep_menu.h); a dynamic program takes one for each block (keep_options.h); the planner says what
// the result needs, and the program is run again under a limit corrected by the difference, until the budget
// is used up. Requires: request.train. Errors: kWillNotFit with the smallest total found, where nothing fits.
// Cost: under a second for BERT-large.
BudgetChoice choose_recompute(const PlanRequest& request, int64_t budget_bytes);

// What was chosen and what it was compared with, as a note for people.
std::string budget_words(const BudgetChoice& choice);

}  // namespace plimsoll
