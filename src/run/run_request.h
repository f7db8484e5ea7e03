// The request for a run's plan: what the arguments and the data ask of the plan's builder. The last part of
// prepare_run (run_setup.h), and the passes, which are its first; not thread-safe.
#pragma once

#include "base/file.h"
#include "run/run_setup.h"

namespace plimsoll {

// Which passes are left out. Errors: kUsage for a name that is no pass.
void set_passes(const Arguments& arguments, PassOptions& passes);

// Fills what else of the request follows from the setup, the choice of the device included. Requires: all
// else is there, the request's passes and adapter as well. Warnings and notes join those of the setup.
// Errors: as choose_device(); kUsage for precisions that contradict each other; kWillNotFit where no
// recomputation fits --recompute_budget.
void fill_request(RunSetup& setup, const Environment& environment, FileSystem& files);

}  // namespace plimsoll
