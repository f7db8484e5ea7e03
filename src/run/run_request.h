// Gathers the facts that plan/request needs to make the request for a run's plan. The last part of prepare_run
// (run_setup.h), and the passes, which are its first part; not thread-safe.
#pragma once

#include "base/file.h"
#include "run/run_setup.h"

namespace plimsoll {

// Sets which passes are left out. Errors: kUsage for a name that is no pass.
void set_passes(const Arguments& arguments, PassOptions& passes);

// Makes setup.request from the setup's arguments and facts. Requires: the rest of the setup is complete. Adds
// warnings and notes to those of the setup. Errors: as request_of(); kWillNotFit if no recomputation fits
// --recompute_budget.
void fill_request(RunSetup& setup, const Environment& environment, FileSystem& files);

}  // namespace plimsoll
