// Reads how much time on processors the control groups of this process allow. Thread-safe. Errors: none.
#pragma once

#include <optional>

#include "device/monitor/host.h"

namespace plimsoll {

// Returns the number of processors whose time this process may use, the lowest limit of its control groups of version 1 or 2: 1.5 for
// "--cpus 1.5" of a container. Empty without a limit.
std::optional<double> cgroup_processors(const SystemPaths& paths = {});

}  // namespace plimsoll
