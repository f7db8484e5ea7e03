// Formats what the backward pass recomputes, for people. Pure; thread-safe.
#pragma once

#include <string>

#include "plan/compile/plan.h"

namespace plimsoll {

// Formats one line per block of the model, with equal neighbouring blocks combined: MiB kept and recomputed,
// operations, estimated time, its fraction of the step, and the recomputed ops. At most `columns` columns, with a
// newline at the end; empty if only the default is requested.
std::string recompute_table(const Plan& plan, size_t columns);

}  // namespace plimsoll
