// Selects the methods of the table that combine with the arguments of a run, which `fit` then searches. It tries to read
// the arguments with each method, and reads the files that they name; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/search/method_space.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// A run that `fit` is asked about: its arguments, and those that are planned, which omit a choice of recomputation that
// each plan makes for its own batch.
struct AskedRun {
  Arguments arguments = {};  // as given
  Arguments planned = {};
  RecomputeChosen recompute = RecomputeChosen::kByPolicy;
  int64_t budget_bytes = 0;
};
AskedRun asked_run(const Arguments& arguments);

struct FitMethods {
  MethodScope scope = {};
  // Methods that the device or an argument rules out, with the reason, which omits the arguments at the beginning of the
  // message.
  std::vector<std::pair<const Method*, std::string>> refused = {};
};

// Returns the methods that have at most the effect `most` on the run. `own`: the request of the run's arguments alone.
// Errors: as prepare_run(), but never kUsage. Cost: reads the arguments once per method.
FitMethods methods_beside(const AskedRun& run, const PlanRequest& own, Effect most,
                          const Environment& environment);

// Returns the first line of a message, without the arguments at its beginning.
std::string reason_of(const std::string& said);

}  // namespace plimsoll
