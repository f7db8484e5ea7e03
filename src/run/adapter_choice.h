// The adapter of a run: one that is given, or the settings of a new one, and how the base below it is held.
// Parts of prepare_run (run_setup.h), in the order in which it calls them; not thread-safe.
#pragma once

#include "base/file.h"
#include "io/hub/hub_cache.h"
#include "run/run_setup.h"

namespace plimsoll {

// Fills the name of the base model and, where an adapter is given, its folder and its settings. The folder of
// an adapter may stand in the place of the model's: it names its base. Errors: kUsage where settings beside
// an adapter contradict it or its base is named nowhere, kBadData for a folder that is not there or holds
// none.
void find_adapter(RunSetup& setup, const HubEnvironment& hub, FileSystem& files);

// What of the adapter the model must know, and a new adapter's settings. Requires: the model is there.
// Errors: kUsage for a new adapter where nothing is trained.
void set_adapter(RunSetup& setup);

// How the base of adapters is held. Errors: kUsage for weights in few bits without an adapter.
void set_base_weights(RunSetup& setup);

// Errors: kUsage where the adapter would be saved into the folder of its base.
void check_adapter_folder(const RunSetup& setup);

}  // namespace plimsoll
