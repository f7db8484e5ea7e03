// Which methods of the table can stand beside the arguments of a run, as reading them says: what `fit`
// searches. Reads the files that the arguments name; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/search/method_space.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// A run that is asked about: its arguments, and what is planned of them. What is computed again, where each
// plan chooses it for its own batch, is left out of these.
struct AskedRun {
  Arguments arguments = {};  // as given
  Arguments planned = {};
  RecomputeChosen recompute = RecomputeChosen::kByPolicy;
  int64_t budget_bytes = 0;
};
AskedRun asked_run(const Arguments& arguments);

struct FitMethods {
  MethodScope scope = {};
  // Methods that the device or an argument rules out, and what the program says of each, without the
  // arguments that it names first.
  std::vector<std::pair<const Method*, std::string>> refused = {};
};

// Of those that have at most that effect on the run. `own`: the request that the run's arguments alone make.
// Errors: kUsage never; others as prepare_run(). Cost: reads the arguments once for each method.
FitMethods methods_beside(const AskedRun& run, const PlanRequest& own, Effect most,
                          const Environment& environment);

// What the program said, without a second line and the arguments that it names first.
std::string reason_of(const std::string& said);

}  // namespace plimsoll
